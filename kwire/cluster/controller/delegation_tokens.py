"""The active controller's API for delegation tokens, and the removal of those that have expired (KIP-48)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from kwire.chunks import chunks, in_turns, turn
from kwire.cluster.controller.plans.delegation_tokens import (
    Principal,
    expired_tokens,
    plan_expiry,
    plan_new_token,
    plan_removals,
    plan_renewal,
)
from kwire.cluster.metadata.delegation_tokens import TokenHmacs, TokenSettings, token_hmac
from kwire.cluster.raft.metadata_log import MetadataLog, Written
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from kwire.seams import Clock, RandomSource

logger = logging.getLogger(__name__)

REMOVED_AT_ONCE: Final = 256
"""Expired tokens that are removed by one batch of records."""

R = TypeVar("R")


class DelegationTokens:
    """Delegation tokens of the cluster. Each change is answered when it is committed."""

    def __init__(
        self, *, metadata_log: MetadataLog, clock: Clock, random_source: RandomSource, settings: TokenSettings
    ) -> None:
        self._log = metadata_log
        self._clock = clock
        self._random_source = random_source
        self._settings = settings
        self._hmacs = TokenHmacs()

    async def create(
        self, *, owner: Principal, requester: str, renewers: Sequence[Principal], lifetime_ms: int
    ) -> tuple[DelegationTokenRecord, bytes]:
        """Store a new token; return its record and its HMAC. Raises KafkaError."""

        def plan() -> tuple[DelegationTokenRecord, tuple[DelegationTokenRecord, bytes]]:
            record = plan_new_token(
                token_id=self._random_source.uuid(),
                owner=owner,
                requester=requester,
                renewers=renewers,
                lifetime_ms=lifetime_ms,
                now_ms=self._clock.wall_ms(),
                settings=self._settings,
            )
            return record, (record, token_hmac(self._settings.key, record.token_id))

        return await self._write(plan)

    async def renew(self, given: bytes, principal: str, period_ms: int) -> int:
        """Let the token with an HMAC expire later; return when, in milliseconds. Raises KafkaError."""
        token_id = await self._find(given)

        def plan() -> tuple[DelegationTokenRecord, int]:
            record = plan_renewal(
                self._token(token_id), principal, period_ms, now_ms=self._clock.wall_ms(), settings=self._settings
            )
            return record, record.expiration_timestamp

        return await self._write(plan)

    async def expire(self, given: bytes, principal: str, period_ms: int) -> int:
        """Let the token with an HMAC expire in `period_ms`; return when. Raises KafkaError.

        A negative period removes the token, and is returned in place of a time, as in Apache Kafka.
        """
        token_id = await self._find(given)

        def plan() -> tuple[Any, int]:
            record = plan_expiry(self._token(token_id), principal, period_ms, now_ms=self._clock.wall_ms())
            if isinstance(record, RemoveDelegationTokenRecord):
                return record, period_ms
            return record, record.expiration_timestamp

        return await self._write(plan)

    async def run(self) -> None:
        """Remove expired tokens periodically while the controller runs."""
        while True:
            await asyncio.sleep(self._settings.check_interval_ms / 1000)
            if not self._log.is_active:
                continue
            try:
                await self._remove_expired()
            except KafkaError as error:
                logger.warning("cannot remove expired delegation tokens: %s", error)

    async def _remove_expired(self) -> None:
        now_ms = self._clock.wall_ms()
        for some in chunks(await in_turns(expired_tokens(self._log.newest_image, now_ms)), REMOVED_AT_ONCE):
            removals = plan_removals(self._log.newest_image, some, now_ms)
            if removals:
                await self._log.committed(self._log.append(removals))
                logger.info("removed %d expired delegation tokens", len(removals))
            await turn()

    async def _find(self, given: bytes) -> str:
        """Return the id of the token with an HMAC; empty without one. Raises KafkaError without a key."""
        tokens = self._log.newest_image.delegation_tokens
        return await in_turns(self._hmacs.find(self._settings.key, tokens, given))

    def _token(self, token_id: str) -> DelegationTokenRecord:
        """Return a token of the newest image. Raises KafkaError."""
        token = self._log.newest_image.delegation_tokens.get(token_id)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    async def _write(self, plan: Callable[[], tuple[Any, R]]) -> R:
        """Append the record of a plan, and return its result when it is committed. Raises KafkaError.

        An error waits as well: it may be based on records that are not durable yet.
        """
        epoch = self._log.epoch
        try:
            record, result = plan()
            self._log.append([record])
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                await self._log.committed(Written(self._log.newest_image.offset, epoch))
            raise
        await self._log.committed(Written(self._log.newest_image.offset, epoch))
        return result
