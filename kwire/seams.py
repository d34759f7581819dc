"""What the broker takes from the world: clock, chance and workers.

log, cluster and coordinator never import time, random or threading; they are given these objects.
Production passes the real ones below; a simulator passes virtual ones. Files have a seam of their own, kwire.log.disk;
sockets are the asyncio event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import Protocol, TypeVar

from kwire.worker_threads import WorkerThreads

T = TypeVar("T")

WORKERS = 4
"""Threads of a pool, unless it is made with another number."""


class Clock(Protocol):
    """Time, in the two senses that a broker needs."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch: what record timestamps and retention use."""

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back: what timeouts use."""


class Chance(Protocol):
    """Randomness: ids and jitter."""

    def uuid(self) -> uuid.UUID:
        """A random UUID that Kafka accepts: never one whose base64 form starts with a dash, never a reserved one."""

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high]."""


class Workers(Protocol):
    """Calls that release the GIL (fsync, codecs, large reads), away from the event loop."""

    async def run(self, call: Callable[[], T]) -> T:
        """The result of call(), which ran off the loop; its exception is raised here."""

    def close(self) -> None:
        """Wait for what runs, and end."""


class SystemClock:
    """The machine's own time."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


class SystemChance:
    """The machine's own randomness; give a seed to make it repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 ids, no secrets

    def uuid(self) -> uuid.UUID:
        while True:
            candidate = uuid.UUID(int=self._random.getrandbits(128), version=4)
            # 0xf8..0xfb as first byte would print as '-', which command lines take for an option.
            if candidate.bytes[0] >> 2 != 0b111110:
                return candidate

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class ThreadWorkers:
    """Workers on a small pool of threads."""

    def __init__(self, threads: int = WORKERS) -> None:
        self._pool = WorkerThreads(threads, "kwire-worker")

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
