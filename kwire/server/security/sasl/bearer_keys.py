"""Public keys of an identity provider (JWKS, RFC 7517), from a file or a URL that only server.properties names.

They are read outside of the event loop: at start, at intervals, and soon after a token with an unknown key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit

from kwire.seams import Workers

if TYPE_CHECKING:
    from jwt import PyJWK

logger = logging.getLogger(__name__)

SCHEMES: Final = ("https", "http", "file")
BYTES_MAX: Final = 1024 * 1024
"""Largest set of keys that is read, in bytes."""
TIMEOUT_SECONDS: Final = 10.0
"""Longest wait for a connection, and for each part of a response."""
CONTENT_SECONDS_MAX: Final = 20.0
"""Longest time for the content of a response, however small its parts are: a worker and a stop wait for it."""
PIECE_BYTES: Final = 64 * 1024
UNKNOWN_KEY_SECONDS: Final = 10.0
"""Shortest time between two reads that tokens with unknown keys cause."""


class BearerKeys:
    """Keys from one URL, kept current."""

    def __init__(self, url: str, workers: Workers, *, refresh_ms: int, retry_ms: int, retry_ms_max: int) -> None:
        """`refresh_ms` is the interval after a successful read, the other two are that after failures."""
        self._url = url
        self._workers = workers
        self._refresh_ms = refresh_ms
        self._retry_ms = retry_ms
        self._retry_ms_max = retry_ms_max
        self._keys: Sequence[PyJWK] = ()
        self._is_unknown = asyncio.Event()
        """Set if a token had an unknown key."""

    def find(self, key_id: str | None) -> Sequence[PyJWK]:
        """Return the keys that may have signed a token. An unknown key id causes a read soon."""
        found = [key for key in self._keys if key_id is None or key.key_id == key_id]
        if not found:
            self._is_unknown.set()
        return found

    async def run(self) -> None:
        """Read the keys at intervals, for as long as the node runs."""
        failures = 0
        while True:
            failures = 0 if await self.read() else failures + 1
            wait_ms = self._refresh_ms
            if failures:
                wait_ms = min(self._retry_ms_max, self._retry_ms * 2 ** min(failures - 1, 20))
            self._is_unknown.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await asyncio.sleep(UNKNOWN_KEY_SECONDS)
                    await self._is_unknown.wait()
            except TimeoutError:
                continue

    async def read(self) -> bool:
        """Read the keys once; return False and log the reason if that fails. The keys before stay in use then."""
        try:
            self._keys = await self._workers.run(lambda: keys_of(_fetched(self._url)))
        except (OSError, ValueError, HTTPException) as error:
            logger.warning("the keys of %s cannot be read: %s", self._url, error)
            return False
        return True


def keys_of(content: bytes) -> list[PyJWK]:
    """Return the public keys of a JWKS that can verify signatures. Raises ValueError if it has none."""
    from jwt import PyJWK  # noqa: PLC0415 most nodes never need it, and it takes long to import

    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    entries = document.get("keys") if isinstance(document, Mapping) else None
    keys = []
    for entry in entries if isinstance(entries, list) else ():
        if _is_public(entry):
            try:
                keys.append(PyJWK(entry))
            except Exception:  # noqa: BLE001, S112 no key that the libraries cannot read may stop the node
                continue
    if not keys:
        raise ValueError("it has no public key that can verify a signature")
    return keys


def _is_public(entry: Any) -> bool:
    """Return True for a public key; symmetric ones are left out, because a token could be forged with them."""
    return isinstance(entry, Mapping) and entry.get("kty") in ("RSA", "EC", "OKP") and entry.get("use", "sig") == "sig"


def _fetched(url: str) -> bytes:
    """Return the content of a URL. Raises OSError, ValueError or HTTPException."""
    if urlsplit(url).scheme not in SCHEMES:
        raise ValueError(f"it is no URL of {', '.join(SCHEMES)}")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 the scheme was checked
            return read_content(answer)
    except HTTPError as error:
        error.close()
        raise


def read_content(answer: Any) -> bytes:
    """Return the content of an opened URL. Raises ValueError if it is too long, OSError if it takes too long."""
    content = b""
    ends_at = time.monotonic() + CONTENT_SECONDS_MAX
    while piece := answer.read1(PIECE_BYTES):
        content += piece
        if len(content) > BYTES_MAX:
            raise ValueError(f"it has more than {BYTES_MAX} bytes")
        if time.monotonic() > ends_at:
            raise TimeoutError(f"its content takes longer than {CONTENT_SECONDS_MAX:g} s")
    return content
