"""Workers whose calls can be waited for, also calls whose task was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kwire.seams import Workers

T = TypeVar("T")


class TrackedWorkers:
    """Passes calls on to other workers, and knows which have not ended.

    A thread goes on with a call whose task was cancelled, and may write to files meanwhile.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of call(), which ran off the loop; its exception is raised here."""
        task = asyncio.get_running_loop().create_task(self._workers.run(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        finally:
            del task  # it has the exception, whose traceback has this frame: what the call worked on would stay

    async def drain(self) -> None:
        """Return when no call runs."""
        while self._running:
            await asyncio.wait(self._running)

    def close(self) -> None:
        """Wait for what runs, and end."""
        self._workers.close()
