"""Virtual time: what is due, of all event loops of a simulation, in one order.

Handles that are ready run first in, first out. When none is left, time jumps to the next timer; timers of the same
moment run in the order in which they were set. Nothing here depends on the machine's time, on addresses or on hashes.
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
"""Timers closer than this are due together: a pause as short as rounding errors must not need a jump."""
CANCELLED_MAX: Final = 200
"""Cancelled timers that may lie about, if they are not the most."""


class DeadlockError(AssertionError):
    """Everybody waits, and no timer will wake anyone."""


class Timeline:
    """Runs the handles of its loops."""

    def __init__(self, *, step_seconds: float = 0.0) -> None:
        self.now = 0.0
        """Seconds since the beginning."""
        self._step_seconds = step_seconds
        """What each handle takes. Without that, whoever polls until it is late enough would poll for ever."""
        self.events = 0
        """Handles that have run."""
        self.loop: ProcessLoop | None = None
        """The loop of the process whose handle runs, or ran last."""
        self.after_event: Callable[[], None] | None = None
        """Called after each handle that ran in a process; what it raises ends the run."""
        self._ready: deque[tuple[ProcessLoop, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, ProcessLoop, asyncio.Handle]] = []
        self._count = 0
        self._cancelled = 0

    # --- called by loops

    def soon(self, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        """Run it after what is ready now."""
        self._ready.append((loop, handle))

    def at(self, when: float, loop: ProcessLoop, handle: asyncio.Handle) -> None:
        """Run it when it is time."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, loop, handle))

    def timer_cancelled(self) -> None:
        """Forget cancelled timers when they become many."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and 2 * self._cancelled > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[3].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # --- called by whoever holds the simulation

    def run(self, is_over: Callable[[], bool], *, until: float = FOREVER) -> None:
        """Run until it is over or so late. Raises DeadlockError when neither can come.

        As in asyncio, what a turn makes ready runs in the next turn, behind the timers that are due by then.
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
        """Let time pass with nothing done in it; what became due is late."""
        self.now += max(seconds, 0.0)

    def _jump(self, until: float) -> bool:
        """Go to the next timer; whether there is one until then."""
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
            self._cancelled = max(0, self._cancelled - 1)
        if not timers and until == FOREVER:
            raise DeadlockError("nothing is left to run, and somebody still waits")
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
        running._set_running_loop(loop)  # noqa: SLF001 what an event loop is told to call
        loop.run_handle(handle)
        self.events += 1
        self.now += self._step_seconds
        if self.after_event is not None:
            self.after_event()


@contextmanager
def _borrowed_thread() -> Iterator[None]:
    """The thread may have a loop that runs already; it gets it back."""
    before = running._get_running_loop()  # noqa: SLF001 see above
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, _finalize)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)
        running._set_running_loop(before)  # noqa: SLF001 see above


def _finalize(generator: AsyncGenerator[Any, Any]) -> None:
    """An asynchronous generator was dropped before its end: let its process end it."""
    loop = running._get_running_loop()  # noqa: SLF001 see above
    if loop is not None and not loop.is_closed():
        loop.create_task(generator.aclose())
