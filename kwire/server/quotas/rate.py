"""Rate over sampled windows, computed exactly as in Kafka's metrics, and the throttle time of a rate above its limit.

Values are summed in samples of one window each; `samples_max` of them form the monitored time. The newest sample is
still filling. So the sum covers between samples_max - 1 and samples_max windows. A new client is measured as if it had
been silent in the windows before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

THROTTLE_MS_MAX = 2**31 - 1


def rounded(value: float) -> int:
    """Return the nearest integer, halves up, in the range of an int32; 0 for NaN."""
    if math.isnan(value):
        return 0
    return math.floor(min(max(value, 0.0), THROTTLE_MS_MAX - 1) + 0.5)


@dataclass(slots=True)
class _Sample:
    started_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.started_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """Rate in units per second. Times are those of one monotonic clock, in milliseconds."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, *, samples_max: int, window_ms: int) -> None:
        self._samples_max = samples_max
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.started_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        # One sample more than is monitored: the oldest overlaps the beginning of the monitored time.
        self._current = (self._current + 1) % (self._samples_max + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms, now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """Return the rate per second."""
        window_ms = self.window_ms(now_ms)
        return sum(sample.value for sample in self._samples) / (window_ms / 1000.0)

    def window_ms(self, now_ms: int) -> int:
        """Return the length of the monitored time."""
        expired = self._samples_max * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expired:
                sample.reset(now_ms)
        elapsed = now_ms - min((sample.started_ms for sample in self._samples), default=now_ms)
        missing = self._samples_max - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long nothing may be recorded until the rate is down to the limit; 0 if it is not above it."""
        rate = self.measure(now_ms)
        if rate <= limit:
            return 0
        return rounded((rate - limit) / limit * self.window_ms(now_ms))
