"""The quota on changes of the cluster: partitions created and deleted per second (KIP-599).

Strict: what comes while the bucket is below zero is refused. Permissive, for request versions that do not know
THROTTLING_QUOTA_EXCEEDED: it is done, and the client has to wait afterwards.
"""

from __future__ import annotations

from typing import Protocol

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.seams import Clock
from kwire.server.quotas.token_bucket import TokenBucket


class Mutations(Protocol):
    """What one request may change."""

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait afterwards."""

    def record(self, partitions: int) -> None:
        """Count a change; raises KafkaError when it must not be made now."""


class NoMutationQuota:
    """As much as it likes."""

    throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Nothing is counted."""


class MutationQuota:
    """Within a client's quota."""

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
        """What is left of the wait: the answer may have waited as well."""
        return max(0, self._throttle_ms - (int(self._clock.monotonic_ms()) - self._noted_ms))
