"""Replacement of the time and random modules, for clients that use these and not their event loop's time.

While a simulation with own_machine=True runs, `time.time()` and similar functions return the simulated time of the
running process's host, and `random` draws from the seed. This affects the whole Python process, also other threads.
"""

from __future__ import annotations

import random
import time
from asyncio import events as running
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from kwire.simulation.hosts import HostLoop
from kwire.simulation.random_source import SeededRandomSource


def _loop() -> HostLoop | None:
    loop = running._get_running_loop()  # noqa: SLF001 an event loop may
    return loop if isinstance(loop, HostLoop) else None


class Machine:
    """Replacements for functions of the modules."""

    def __init__(self, random_source: SeededRandomSource) -> None:
        self._random = random.Random(random_source.numbers.getrandbits(64)).getstate()  # noqa: S311 must be repeatable
        self._real = (time.time_ns, time.monotonic_ns)

    def _wall_ns(self) -> int:
        loop = _loop()
        return self._real[0]() if loop is None else loop.host.wall_ns()

    def _monotonic_ns(self) -> int:
        loop = _loop()
        return self._real[1]() if loop is None else round(loop.time() * 1e9)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Replace the functions during the block."""
        state = random.getstate()
        random.setstate(self._random)
        calls: dict[str, Any] = {
            "time_ns": self._wall_ns,
            "monotonic_ns": self._monotonic_ns,
            "perf_counter_ns": self._monotonic_ns,
            "time": lambda: self._wall_ns() / 1e9,
            "monotonic": lambda: self._monotonic_ns() / 1e9,
            "perf_counter": lambda: self._monotonic_ns() / 1e9,
        }
        try:
            with mock.patch.multiple(time, **calls):
                yield
        finally:
            self._random = random.getstate()
            random.setstate(state)
