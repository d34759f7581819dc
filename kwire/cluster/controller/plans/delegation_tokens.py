"""Plans for delegation tokens: from a request to a record, with Kafka's checks (KIP-48, KIP-373)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from kwire.chunks import CHUNK, Pieces, chunks
from kwire.cluster.configs.config_keys import INT64_MAX
from kwire.cluster.metadata.delegation_tokens import USER_TYPE, TokenSettings, is_expired, owns_or_renews
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from kwire.protocol.uuids import uuid_to_text

RENEWERS_MAX: Final = 1000
"""Most renewers of a token: each node keeps them in memory."""
RENEWERS_CHARACTERS_MAX: Final = 64 * 1024
"""Most characters of the names of a token's renewers. Every user may create tokens."""

Principal = tuple[str, str]
"""Tuple (type, name)."""


def plan_new_token(
    *,
    token_id: UUID,
    owner: Principal,
    requester: str,
    renewers: Sequence[Principal],
    lifetime_ms: int,
    now_ms: int,
    settings: TokenSettings,
) -> DelegationTokenRecord:
    """Return the record of a new token; `lifetime_ms` below 1 stands for the longest. Raises KafkaError."""
    if any(kind != USER_TYPE for kind, _ in (owner, *renewers)):  # clients log in as users only
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    lifetime_ms_max = settings.lifetime_ms_max
    lifetime_ms = min(lifetime_ms, lifetime_ms_max) if lifetime_ms > 0 else lifetime_ms_max
    max_timestamp = _later(now_ms, lifetime_ms)
    return DelegationTokenRecord(
        owner=":".join(owner),
        requester=requester,
        renewers=[":".join(renewer) for renewer in renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, _later(now_ms, settings.renewal_ms)),
        token_id=uuid_to_text(token_id),
    )


def plan_renewal(
    token: DelegationTokenRecord, principal: str, period_ms: int, *, now_ms: int, settings: TokenSettings
) -> DelegationTokenRecord:
    """Return the record of a token that expires later; `period_ms` below 1 means the longest. Raises KafkaError."""
    if is_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not owns_or_renews(principal, token):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period_ms = min(period_ms, settings.renewal_ms) if period_ms > 0 else settings.renewal_ms
    return _until(token, _later(now_ms, period_ms))


def plan_expiry(
    token: DelegationTokenRecord, principal: str, period_ms: int, *, now_ms: int
) -> DelegationTokenRecord | RemoveDelegationTokenRecord:
    """Return the record of a token that expires at another time, for a negative period at once. Raises KafkaError."""
    if not owns_or_renews(principal, token):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        return RemoveDelegationTokenRecord(token_id=token.token_id)
    if is_expired(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(token, _later(now_ms, period_ms))


def expired_tokens(image: MetadataImage, now_ms: int) -> Pieces[list[str]]:
    """Return the ids of the tokens that have expired."""
    found: list[str] = []
    for some in chunks(image.delegation_tokens.values()):
        found += [token.token_id for token in some if is_expired(token, now_ms)]
        if len(some) == CHUNK:
            yield
    return found


def plan_removals(image: MetadataImage, token_ids: Iterable[str], now_ms: int) -> list[RemoveDelegationTokenRecord]:
    """Return the records that remove those of the tokens that are still there and still expired."""
    tokens = image.delegation_tokens
    return [
        RemoveDelegationTokenRecord(token_id=token_id)
        for token_id in token_ids
        if token_id in tokens and is_expired(tokens[token_id], now_ms)
    ]


def _until(token: DelegationTokenRecord, timestamp: int) -> DelegationTokenRecord:
    return dataclasses.replace(token, expiration_timestamp=min(token.max_timestamp, timestamp))


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, INT64_MAX)
