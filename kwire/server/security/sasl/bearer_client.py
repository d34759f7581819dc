"""Tokens with which this node logs in at other nodes: from a file, or from the endpoint of an identity provider.

At an endpoint, the node shows its client id and secret (RFC 6749, client credentials). Tokens are read outside of the
event loop, and used until most of their lifetime is over.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit

from kwire.cluster.configs.settings import read_settings, setting
from kwire.seams import Clock, Workers
from kwire.server.security.sasl.bearer_keys import SCHEMES, TIMEOUT_SECONDS, read_content
from kwire.server.security.sasl.mechanism import AuthenticationError
from kwire.server.settings.setting_rules import RuleBrokenError

LIFETIME_USED: Final = 0.8
"""Part of a token's lifetime after which another one is read, as Kafka's sasl.login.refresh.window.factor."""
_KEY: Final = "sasl.oauthbearer."


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Settings of the tokens of this node."""

    url: str | None = setting("sasl.oauthbearer.token.endpoint.url")
    client_id: str | None = setting("sasl.oauthbearer.client.credentials.client.id")
    client_secret: str | None = setting("sasl.oauthbearer.client.credentials.client.secret", secret=True)
    scope: str | None = setting("sasl.oauthbearer.scope")


def read_token_settings(listener_name: str, values: Mapping[str, Any]) -> TokenSettings:
    """Return the settings for logins at a listener, from its values. Raises RuleBrokenError."""
    settings = read_settings(TokenSettings, values)
    scheme = urlsplit(settings.url or "").scheme
    if scheme not in SCHEMES:
        raise RuleBrokenError(
            f"{_KEY}token.endpoint.url: is no URL of {', '.join(SCHEMES)}; this node needs one to get tokens for "
            f"listener {listener_name}"
        )
    for key, value in (("id", settings.client_id), ("secret", settings.client_secret)):
        if scheme != "file" and not value:
            raise RuleBrokenError(f"{_KEY}client.credentials.client.{key}: is missing for {_KEY}token.endpoint.url")
    return settings


class TokenSource:
    """Tokens from one place, each used by several logins."""

    def __init__(self, settings: TokenSettings, *, workers: Workers, clock: Clock) -> None:
        self._settings = settings
        self._workers = workers
        self._clock = clock
        self._lock = asyncio.Lock()
        self._token = ""
        self._renew_at_ms = 0.0

    async def token(self) -> str:
        """Return a token that has not expired. Raises AuthenticationError."""
        async with self._lock:
            now_ms = self._clock.wall_ms()
            if now_ms >= self._renew_at_ms:
                try:
                    token = await self._workers.run(lambda: _fetched(self._settings))
                    self._renew_at_ms = now_ms + LIFETIME_USED * (_expiry_ms(token) - now_ms)
                except (OSError, ValueError, HTTPException, ArithmeticError, RecursionError) as error:
                    raise AuthenticationError(f"no token from {self._settings.url}: {error}") from None
                self._token = token
            return self._token

    def reject(self, token: str) -> None:
        """Read another token for the next login: a node has rejected this one, whatever its expiry time says."""
        if token == self._token:
            self._renew_at_ms = 0.0


def _fetched(settings: TokenSettings) -> str:
    """Return a new token. Raises OSError, ValueError or HTTPException."""
    assert settings.url is not None, "the settings were checked"
    if urlsplit(settings.url).scheme == "file":
        return _content(settings.url).decode("ascii").strip()
    pair = f"{quote_plus(settings.client_id or '')}:{quote_plus(settings.client_secret or '')}"
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    request = urllib.request.Request(  # noqa: S310 the scheme was checked
        settings.url,
        data=urlencode(form).encode(),
        headers={"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"},
    )
    answer = json.loads(_content(request))
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isascii():
        raise ValueError("the response has no access_token")
    return token


def _content(request: str | urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 the scheme was checked
            return read_content(answer)
    except HTTPError as error:
        error.close()
        raise


def _expiry_ms(token: str) -> float:
    """Return when a token expires, in milliseconds since the epoch; only its verifier checks its signature."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it is no signed JSON web token")
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    expires = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expires, int | float):
        return float(expires) * 1000
    raise ValueError("the token has no expiry time")
