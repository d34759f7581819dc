"""Workers whose running calls can be awaited, also those of cancelled tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kwire.seams import Workers

T = TypeVar("T")


class TrackedWorkers:
    """Wrapper of workers that tracks the running calls.

    A thread continues with a call whose task was cancelled, and may write to files meanwhile.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call outside the event loop; return its result or raise its exception."""
        task = asyncio.get_running_loop().create_task(self._workers.run(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        finally:
            del task  # the task refers to this frame by its exception's traceback: a cycle that keeps the call's data

    async def drain(self) -> None:
        """Return when no call runs."""
        while self._running:
            await asyncio.wait(self._running)

    def close(self) -> None:
        """Wait for running calls, and close the workers."""
        self._workers.close()
