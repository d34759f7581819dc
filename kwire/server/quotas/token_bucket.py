"""Token bucket: allows one burst, and then as many tokens as are added over time (KIP-599).

The bucket starts full and never holds more than the quota of all windows together. It may go below zero: a client that
took more than the available tokens waits until it is no longer below zero.
"""

from __future__ import annotations

import math

from kwire.server.quotas.rate import rounded


class TokenBucket:
    """Tokens of one client. Times are those of one monotonic clock, in milliseconds."""

    __slots__ = ("_burst_seconds", "_filled_ms", "_tokens")

    def __init__(self, *, samples_max: int, window_ms: int, now_ms: int) -> None:
        self._burst_seconds = samples_max * window_ms / 1000.0
        self._tokens = math.inf
        self._filled_ms = now_ms

    def tokens(self, limit: float, now_ms: int) -> float:
        """Return the available tokens at a quota of `limit` tokens per second."""
        flowed = limit * (now_ms - self._filled_ms) / 1000.0
        self._tokens = min(self._burst_seconds * limit, self._tokens + flowed)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = min(self._burst_seconds * limit, self.tokens(limit, now_ms) - count)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time until the bucket is no longer below zero."""
        tokens = self.tokens(limit, now_ms)
        return rounded(-tokens / limit * 1000.0) if tokens < 0 else 0
