"""An asyncio event loop whose time passes only when nothing is left to do.

Use it where code under test waits: timers fire in their order, at exactly their time, and an hour takes no time at all.

    with virtual_loop() as loop:
        loop.run_until_complete(main())

`loop.time()` starts at 0. A loop that has neither work nor timers while somebody waits for it would wait for ever: it
raises DeadlockError. There are no sockets and no threads here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

WALL_START_MS = 1_700_000_000_000


class DeadlockError(AssertionError):
    """Everybody waits, and no timer will wake anyone."""


class _TimeSkipper:
    """Stands where a loop has its selector: where another loop would sleep, time jumps."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise DeadlockError("nothing is left to run, and somebody still waits")
        self._loop.skip(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _TimeSkipper(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        self._now += max(seconds, 0.0)

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Wake the loop from another thread: there is none."""


class VirtualClock:
    """The seam's Clock on a virtual loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return WALL_START_MS + round(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000


@contextlib.contextmanager
def virtual_loop() -> Iterator[VirtualLoop]:
    """A loop that is closed in the end, with tasks that are left cancelled."""
    loop = VirtualLoop()
    try:
        yield loop
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()
