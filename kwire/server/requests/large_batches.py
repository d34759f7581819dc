"""Decompression and compression of large batches in worker threads."""

import asyncio
from collections.abc import Awaitable, Callable

from kwire.seams import Workers


class WorkersForLargeBatches:
    """Large batches of all requests, one at a time: decompression and compression run in a worker.

    Only one batch is processed, so that memory stays bounded. Implements kwire.log.large_batches.LargeBatches.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._place = asyncio.Lock()
        self._running: asyncio.Future[bytes] | None = None

    def acquire(self) -> Awaitable[object]:
        return self._place.acquire()

    def release(self) -> None:
        """Release the lock as soon as the worker has finished: a thread cannot be cancelled."""
        running, self._running = self._running, None
        if running is None or running.done():
            self._place.release()
        else:
            running.add_done_callback(self._ended)

    def run(self, call: Callable[[], bytes]) -> Awaitable[bytes]:
        self._running = asyncio.ensure_future(self._workers.run(call))
        return asyncio.shield(self._running)

    def _ended(self, running: asyncio.Future[bytes]) -> None:
        if not running.cancelled():
            running.exception()  # retrieved, or asyncio logs it as never retrieved
        self._place.release()
