"""Where batches are unpacked that are too large for the event loop."""

import asyncio
from collections.abc import Awaitable, Callable

from kwire.seams import Workers


class WorkersForLargeBatches:
    """Unpacks in workers, one batch at a time for all who ask: many cannot fill the memory (LargeBatches)."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._place = asyncio.Lock()

    def enter(self) -> Awaitable[object]:
        return self._place.acquire()

    def leave(self) -> None:
        self._place.release()

    def unpack(self, call: Callable[[], bytes]) -> Awaitable[bytes]:
        return self._workers.run(call)
