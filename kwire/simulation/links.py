"""The ways between hosts: how long bytes take, and whether they arrive at all. Each direction is a link of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.simulation.chance import SeededChance


@dataclass(slots=True, kw_only=True)
class Speed:
    """How long a link takes."""

    least_ms: float = 0.1
    """What any packet takes."""
    mean_ms: float = 0.2
    """What is added to it on average: often less, now and then many times as much."""
    tail_chance: float = 0.0
    """Packets, in one, that are late by up to tail_ms: lost and sent again."""
    tail_ms: float = 0.0
    bytes_per_second: float = 1e9


def bad_weather(chance: SeededChance) -> Speed:
    """A slow link: exponential around 1 to 200 ms, one packet in a hundred late by up to a minute."""
    return Speed(least_ms=0.1, mean_ms=chance.uniform(1.0, 200.0), tail_chance=0.01, tail_ms=60_000.0)


class Link:
    """One direction between two hosts."""

    __slots__ = ("_barriers", "_chance", "_waiting", "speed")

    def __init__(self, chance: SeededChance, speed: Speed) -> None:
        self._chance = chance
        self._barriers: dict[str, None] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self.speed = speed

    def seconds(self, size: int) -> float:
        """What the next packet takes."""
        speed = self.speed
        delay_ms = speed.least_ms + self._chance.exponential(speed.mean_ms)
        if speed.tail_chance and self._chance.happens(speed.tail_chance):
            delay_ms += self._chance.uniform(0.0, speed.tail_ms)
        return delay_ms / 1000.0 + size / speed.bytes_per_second

    @property
    def is_open(self) -> bool:
        return not self._barriers

    def block(self, reason: str) -> None:
        """Let nothing arrive; what was sent waits."""
        self._barriers[reason] = None

    def unblock(self, reason: str) -> None:
        """Take one reason away; without any left, those that wait are told."""
        self._barriers.pop(reason, None)
        if not self._barriers:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def when_open(self, wake: Callable[[], None]) -> None:
        """Call it when the link is open again."""
        self._waiting[wake] = None

    def retransmission_seconds(self) -> float:
        """How long after a link is open again TCP finds out."""
        return self._chance.uniform(0.001, 0.4)
