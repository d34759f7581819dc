"""Links between hosts: delay of packets, and blocked links. Each direction is a separate link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.simulation.random_source import SeededRandomSource


@dataclass(slots=True, kw_only=True)
class Speed:
    """Delay and throughput of a link."""

    least_ms: float = 0.1
    """Minimum delay of every packet."""
    mean_ms: float = 0.2
    """Mean of the additional delay: mostly less, sometimes many times as much."""
    tail_probability: float = 0.0
    """Fraction of packets that are late by up to tail_ms, as if lost and sent again."""
    tail_ms: float = 0.0
    bytes_per_second: float = 1e9


def bad_weather(random_source: SeededRandomSource) -> Speed:
    """Return a slow link: a delay around 1 to 200 ms, and one packet in a hundred late by up to a minute."""
    return Speed(least_ms=0.1, mean_ms=random_source.uniform(1.0, 200.0), tail_probability=0.01, tail_ms=60_000.0)


class Link:
    """Link from one host to another."""

    __slots__ = ("_barriers", "_random_source", "_waiting", "speed")

    def __init__(self, random_source: SeededRandomSource, speed: Speed) -> None:
        self._random_source = random_source
        self._barriers: dict[str, None] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self.speed = speed

    def seconds(self, size: int) -> float:
        """Return the delay of the next packet."""
        speed = self.speed
        delay_ms = speed.least_ms + self._random_source.exponential(speed.mean_ms)
        if speed.tail_probability and self._random_source.happens(speed.tail_probability):
            delay_ms += self._random_source.uniform(0.0, speed.tail_ms)
        return delay_ms / 1000.0 + size / speed.bytes_per_second

    @property
    def is_open(self) -> bool:
        return not self._barriers

    def block(self, reason: str) -> None:
        """Block the link; packets wait."""
        self._barriers[reason] = None

    def unblock(self, reason: str) -> None:
        """Remove one reason of the block; after the last one, wake all waiting callbacks."""
        self._barriers.pop(reason, None)
        if not self._barriers:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def when_open(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the link is open again."""
        self._waiting[wake] = None

    def retransmission_seconds(self) -> float:
        """Return how long TCP takes to notice that a link is open again."""
        return self._random_source.uniform(0.001, 0.4)
