"""Virtual time: the due handles of all event loops of a simulation, in one order.

Ready handles run first in, first out. When none is left, time jumps to the next timer; timers of the same moment run in
the order in which they were set. Nothing depends on the machine's time, on addresses or on hashes.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import events as running
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kwire.simulation.loop import ProcessLoop

FOREVER: Final = float("inf")
RESOLUTION_SECONDS: Final = 1e-9
"""Timers closer than this are due together: a difference of a rounding error must not need a jump."""
CANCELLED_MAX: Final = 200
"""Cancelled timers that are kept at least, even if they are the majority."""


class DeadlockError(AssertionError):
    """All coroutines wait, and no timer will wake one."""


class Timeline:
    """Timeline that runs the handles of its loops."""

    def __init__(self, *, step_seconds: float = 0.0) -> None:
        self.now = 0.0
        """Seconds since the beginning."""
        self._step_seconds = step_seconds
        """Time of each handle. With 0, code that polls until a certain time would poll for ever."""
        self.events = 0
        """Number of handles that have run."""
        self.loop: ProcessLoop | None = None
        """Loop of the process whose handle runs, or ran last."""
        self.after_event: Callable[[], None] | None = None
        """Called after each handle that ran in a process; its exception ends the run."""
        self._ready: deque[tuple[ProcessLoop, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, ProcessLoop, asyncio.Handle]] = []
        self._count = 0
        self._cancelled = 0

    # --- called by loops

    def soon(self, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        """Run a handle after those that are ready now."""
        self._ready.append((loop, handle))

    def at(self, when: float, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        """Run a handle at a time of the timeline."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, loop, handle))

    def timer_cancelled(self) -> None:
        """Count a cancelled timer; remove cancelled timers when there are many."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and 2 * self._cancelled > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[3].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # --- called by the owner of the simulation

    def run(self, is_over: Callable[[], bool], *, until: float = FOREVER) -> None:
        """Run until `is_over` returns True, or until a time. Raises DeadlockError if neither can happen.

        As in asyncio, handles that become ready in a turn run in the next turn, after the timers that are due by then.
        """
        with _borrowed_thread():
            while not is_over():
                if not self._ready and not self._jump(until):
                    return
                self._take_due_timers()
                for _ in range(len(self._ready)):
                    loop, handle = self._ready.popleft()
                    if not handle.cancelled():
                        self._run(loop, handle)

    def skip(self, seconds: float) -> None:
        """Let time pass without running anything; timers that became due are late."""
        self.now += max(seconds, 0.0)

    def _jump(self, until: float) -> bool:
        """Advance to the next timer; return False if there is none until then."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
            self._cancelled = max(0, self._cancelled - 1)
        if not timers and until == FOREVER:
            raise DeadlockError("nothing is left to run, but a coroutine still waits")
        if not timers or timers[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now = max(self.now, timers[0][0])
        return True

    def _take_due_timers(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self.now + RESOLUTION_SECONDS:
            _, _, loop, handle = heapq.heappop(timers)
            self._ready.append((loop, handle))

    def _run(self, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        if not loop.takes(handle):
            return
        self.loop = loop
        running._set_running_loop(loop)  # noqa: SLF001 an event loop sets it
        loop.run_handle(handle)
        self.events += 1
        self.now += self._step_seconds
        if self.after_event is not None:
            self.after_event()


@contextmanager
def _borrowed_thread() -> Iterator[None]:
    """Replace the thread's running loop during the block, and restore it."""
    before = running._get_running_loop()  # noqa: SLF001 see above
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, _finalize)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)
        running._set_running_loop(before)  # noqa: SLF001 see above


def _finalize(generator: AsyncGenerator[Any, Any]) -> None:
    """Close an asynchronous generator that was dropped before its end, in its own process."""
    loop = running._get_running_loop()  # noqa: SLF001 see above
    if loop is not None and not loop.is_closed():
        loop.create_task(generator.aclose())
