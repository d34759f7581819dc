"""Delegation tokens: their settings, their secrets, and the principals that may renew or expire them (KIP-48).

A token is an id and its HMAC with a key that all nodes of the cluster have in common. The HMAC is the password of a
login, and is never stored: without the key, the tokens in the metadata log cannot be used.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.cluster.configs.settings import setting
from kwire.cluster.metadata.persistent_map import PersistentMap, iter_changed_keys
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import DelegationTokenRecord

USER_TYPE: Final = "User"
"""Type of the principals that may own and renew tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Settings of delegation tokens. Without a key, there are none."""

    secret_key: str | None = setting("delegation.token.secret.key", secret=True)
    lifetime_ms_max: int = setting("delegation.token.max.lifetime.ms")
    renewal_ms: int = setting("delegation.token.expiry.time.ms")
    check_interval_ms: int = setting("delegation.token.expiry.check.interval.ms")

    @property
    def key(self) -> bytes:
        """Key of the HMAC. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED without one."""
        if not self.secret_key:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self.secret_key.encode()


def token_hmac(key: bytes, token_id: str) -> bytes:
    """Return the secret of a token."""
    return hmac.digest(key, token_id.encode(), hashlib.sha512)


def owns_or_renews(principal: str, token: DelegationTokenRecord) -> bool:
    """Return True if a principal may renew, expire and describe a token without further permission."""
    return principal == token.owner or principal in token.renewers


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return expiry_ms(token) < now_ms


def expiry_ms(token: DelegationTokenRecord) -> int:
    """Return the wall clock time in milliseconds after which a token is no longer accepted."""
    return min(token.max_timestamp, token.expiration_timestamp)


class TokenHmacs:
    """HMACs of the tokens of an image, to find a token by the HMAC that a client sends."""

    def __init__(self) -> None:
        self._known: Mapping[str, DelegationTokenRecord] = PersistentMap()
        self._ids: dict[bytes, str] = {}

    def find(self, key: bytes, tokens: Mapping[str, DelegationTokenRecord], given: bytes) -> Pieces[str]:
        """Return the id of the token with this HMAC; empty without one.

        The cost depends on the changes since the last call, not on the number of tokens. `key` never changes.
        """
        for some in chunks(iter_changed_keys(self._known, tokens)):
            for token_id in some:
                self._note(token_hmac(key, token_id), token_id, is_there=token_id in tokens)
            if len(some) == CHUNK:
                yield
        self._known = tokens
        token_id = self._ids.get(given, "")
        return token_id if hmac.compare_digest(token_hmac(key, token_id), given) else ""

    def _note(self, own: bytes, token_id: str, *, is_there: bool) -> None:
        if is_there:
            self._ids[own] = token_id
        else:
            self._ids.pop(own, None)
