"""Asyncio event loops with virtual time, which passes only when nothing is left to run.

Each process of a simulation has its own loop on the common timeline. Killing the process drops its loop, and no handle
of it runs again. A loop's clock may be faster or slower than the timeline's.

`virtual_loop` is a single loop for code that waits: timers fire in order, at exactly their
time, and an hour passes instantly.

    with virtual_loop() as loop:
        loop.run_until_complete(main())
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import warnings
import weakref
from asyncio import events as running
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import Context
from typing import Any, TypeVar

from kwire.simulation.costs import Costs
from kwire.simulation.timeline import DeadlockError, Timeline

__all__ = ["WALL_START_MS", "DeadlockError", "ProcessLoop", "VirtualClock", "VirtualLoop", "virtual_loop"]

logger = logging.getLogger("asyncio")

WALL_START_MS = 1_700_000_000_000
EXECUTOR_SECONDS = 0.0005
"""Time of a call in the loop's executor."""

CLOSINGS_MAX = 100
"""Limit of the awaits during the close of a killed task; each await ends at once."""

T = TypeVar("T")


class ProcessLoop(asyncio.BaseEventLoop):
    """Event loop of one process. kwire.simulation.network adds sockets and servers."""

    def __init__(self, timeline: Timeline, *, name: str = "", rate: float = 1.0) -> None:
        super().__init__()
        self.timeline = timeline
        self.name = name
        self.rate = rate
        """Seconds of this loop's clock per second of the timeline."""
        self.costs: Costs | None = None
        """Costs of its steps; None if they cost nothing."""
        self._busy_until = 0.0
        """Time of the timeline until which the loop is busy; other handles wait until then."""
        self.failed: Callable[[dict[str, Any]], None] | None = None
        """Called with the context of an exception that a callback raised, as asyncio's exception handlers are."""
        self._start = timeline.now
        self._floor = 0.0
        """Highest time that the clock has shown: it must never go back."""
        self._closed = False
        self._held: list[asyncio.Handle] | None = None
        """Handles that became ready during a pause; None without a pause."""
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]] = weakref.WeakValueDictionary()
        self._tasks_made = 0
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # --- time

    def time(self) -> float:
        elapsed = 0.0 if self.costs is None else self.costs.elapsed_seconds
        now = (self.timeline.now - self._start + elapsed) * self.rate
        self._floor = max(self._floor, now)
        return self._floor

    def call_soon(  # type: ignore[override] # typeshed's has variadic types
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._closed:
            self.timeline.soon(self, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment] # see call_soon

    def call_later(  # type: ignore[override] # see call_soon
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override] # see call_soon
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._closed:
            self.timeline.at(self._start + when / self.rate, self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.timeline.timer_cancelled()

    def takes(self, handle: asyncio.Handle) -> bool:
        """Return True if the handle may run now. A paused process keeps it for later, and a dead one drops it."""
        if self._closed:
            return False
        if self._busy_until > self.timeline.now:
            self.timeline.at(self._busy_until, self, handle)
            return False
        if self._held is not None:
            self._held.append(handle)
            return False
        if isinstance(handle, asyncio.TimerHandle):
            # Rounding must not show a timer a clock before its time.
            self._floor = max(self._floor, handle.when())
        return True

    def run_handle(self, handle: asyncio.Handle) -> None:
        """Run a handle, and be busy for its cost."""
        if self.costs is None:
            handle._run()  # noqa: SLF001 an event loop calls it
        else:
            self._busy_until = self.timeline.now + self.costs.run(handle)

    # --- tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override] # see call_soon
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        self._tasks_made += 1
        task = asyncio.Task(coro, loop=self, name=name or f"{self.name}-{self._tasks_made}", context=context)
        self._tasks[self._tasks_made] = task
        return task

    def run_in_executor(  # type: ignore[override] # see call_soon
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call the function on the loop, a moment later: a simulation has no threads."""

        async def call() -> T:
            await asyncio.sleep(EXECUTOR_SECONDS)
            return func(*args)

        return self.create_task(call())

    # --- pause and end

    def pause(self) -> None:
        """Run nothing until resume; the time continues."""
        self._held = [] if self._held is None else self._held

    def resume(self) -> None:
        held, self._held = self._held or [], None
        for handle in held:
            if not handle.cancelled():
                self.timeline.soon(self, handle)

    def die(self) -> None:
        """Stop everything, as after kill -9.

        Coroutines are closed, which runs their `finally` parts: everything that these use must be disabled before. A
        coroutine that is running cannot be closed; it ends at its next await.
        """
        self._closed = True
        held, self._held = self._held, None
        before = running._get_running_loop()  # noqa: SLF001 finally parts use it
        running._set_running_loop(self)  # noqa: SLF001 see above
        for number in sorted(self._tasks.keys()):
            task = self._tasks.get(number)
            if task is not None and not task.done():
                _close(task)
        running._set_running_loop(before)  # noqa: SLF001 see above
        del held  # only now: a task that has not begun has no other reference

    def close(self) -> None:
        self._closed = True

    def is_closed(self) -> bool:
        return self._closed

    def is_running(self) -> bool:
        return running._get_running_loop() is self  # noqa: SLF001 there is no other way to know

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: asynchronous generators end with their process."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no executor."""

    # --- errors

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: time does not pass in callbacks, so none is slow."""

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        details = [f"{key}: {context[key]!r}" for key in sorted(context) if key not in {"message", "exception"}]
        logger.error("\n".join([context.get("message") or "unhandled exception", *details]), exc_info=error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)
        if self.failed is not None:
            self.failed(context)


def _close(task: asyncio.Task[Any]) -> None:
    """Close a task's coroutine at once, with all coroutines that it waits for, even if they await during the close."""
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 no warning is needed
    for _ in range(CLOSINGS_MAX):
        coroutine = _innermost(task)
        if coroutine is None:
            return
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
                coroutine.close()
        except BaseException as error:  # noqa: BLE001 no caller is left in a dead process
            logging.getLogger(__name__).debug("a killed task raised %r", error)


def _innermost(task: asyncio.Task[Any]) -> Coroutine[Any, Any, Any] | None:
    """Return the coroutine that waits for no other one; None if all have ended, or one is running."""
    found = None
    coroutine: Any = task.get_coro()
    while inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:
        if coroutine.cr_running:
            return None
        found, coroutine = coroutine, coroutine.cr_await
    return found


class VirtualLoop(ProcessLoop):
    """Loop that is alone on its timeline. Its time starts at 0."""

    def __init__(self) -> None:
        super().__init__(Timeline(), name="loop")

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        waits: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type] # a coroutine or future
        callbacks: list[object] = []
        waits.add_done_callback(callbacks.append)
        self.timeline.run(lambda: bool(callbacks))
        return waits.result()

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        self.timeline.skip(seconds)


class VirtualClock:
    """Clock on the time of a virtual loop, see kwire.seams.Clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return WALL_START_MS + round(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000


@contextlib.contextmanager
def virtual_loop() -> Iterator[VirtualLoop]:
    """Return a loop that is closed at the end, after its remaining tasks were cancelled."""
    loop = VirtualLoop()
    try:
        yield loop
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(_all_of(left))
    finally:
        loop.close()


async def _all_of(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
