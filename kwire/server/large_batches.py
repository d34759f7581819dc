"""Where batches are unpacked that are too large for the event loop."""

import asyncio
from collections.abc import Awaitable, Callable

from kwire.seams import Workers


class WorkersForLargeBatches:
    """Unpacks in workers, one batch at a time for all who ask: many cannot fill the memory (LargeBatches)."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._place = asyncio.Lock()
        self._running: asyncio.Future[bytes] | None = None

    def enter(self) -> Awaitable[object]:
        return self._place.acquire()

    def leave(self) -> None:
        """Give the place up: to others when the worker has ended, which goes on though nobody waits any more."""
        running, self._running = self._running, None
        if running is None or running.done():
            self._place.release()
        else:
            running.add_done_callback(self._ended)

    def unpack(self, call: Callable[[], bytes]) -> Awaitable[bytes]:
        self._running = asyncio.ensure_future(self._workers.run(call))
        return asyncio.shield(self._running)

    def _ended(self, running: asyncio.Future[bytes]) -> None:
        if not running.cancelled():
            running.exception()  # else asyncio tells that nobody has seen it
        self._place.release()
