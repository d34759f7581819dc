"""Interfaces to the environment: clock, random number generator and workers.

log, cluster and coordinator never import time, random or threading; they receive these objects. Production passes the
real ones below, a simulation passes virtual ones. Files have their own interface, kwire.log.disk; sockets are those of
the asyncio event loop.
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
"""Default number of threads of a pool."""


class Clock(Protocol):
    """Wall clock and monotonic clock."""

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, for record timestamps and retention."""

    def monotonic_ms(self) -> float:
        """Return milliseconds that never decrease, for timeouts."""


class RandomSource(Protocol):
    """Random number generator for ids and jitter."""

    def uuid(self) -> uuid.UUID:
        """Return a random UUID that Kafka accepts: not a reserved one, and no dash at the start of its base64 form."""

    def uniform(self, low: float, high: float) -> float:
        """Return a random float in [low, high]."""


class Workers(Protocol):
    """Threads for calls that release the GIL (fsync, codecs, large reads) and must not run on the event loop."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run call() outside of the event loop and return its result. Raises its exception."""

    def close(self) -> None:
        """Wait for running calls, and stop."""


class SystemClock:
    """Clock of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


class SystemRandomSource:
    """Random number generator of this machine; with a seed it is repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 ids, no secrets

    def uuid(self) -> uuid.UUID:
        while True:
            candidate = uuid.UUID(int=self._random.getrandbits(128), version=4)
            # 0xf8..0xfb as first byte would be printed as '-', which command lines parse as an option.
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
