"""Mutation quota: limit of partitions created and deleted per second (KIP-599).

A strict quota rejects changes while the bucket is below zero. A permissive quota applies the change and throttles the
client afterwards. It is for request versions without THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from typing import Protocol

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock
from kwire.server.quotas.token_bucket import TokenBucket


class Mutations(Protocol):
    """Mutation quota of one request."""

    @property
    def throttle_ms(self) -> int:
        """Time that the client has to wait after the response."""

    def record(self, partitions: int) -> None:
        """Count a change. Raises KafkaError if it exceeds the quota."""


class NoMutationQuota:
    """Mutation quota of a client without a limit."""

    throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Count nothing."""


class MutationQuota:
    """Mutation quota of a client with a limit."""

    __slots__ = ("_bucket", "_clock", "_is_strict", "_limit", "_noted_ms", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, limit: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._clock = clock
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._noted_ms = 0

    def record(self, partitions: int) -> None:
        now_ms = int(self._clock.monotonic_ms())
        if self._is_strict:
            if self._is_below_zero(now_ms):
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.take(partitions, self._limit, now_ms)
        else:
            self._bucket.take(partitions, self._limit, now_ms)
            self._is_below_zero(now_ms)

    def _is_below_zero(self, now_ms: int) -> bool:
        if self._bucket.tokens(self._limit, now_ms) >= 0:
            return False
        self._throttle_ms = self._bucket.throttle_ms(self._limit, now_ms)
        self._noted_ms = now_ms
        return True

    @property
    def throttle_ms(self) -> int:
        """Remaining wait of the client: the response may have waited itself."""
        return max(0, self._throttle_ms - (int(self._clock.monotonic_ms()) - self._noted_ms))
