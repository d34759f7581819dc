"""Producer ids: allocated by the controller in blocks and used one by one. An id is never used twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

AllocateBlock = Callable[[], Awaitable[range]]


class ProducerIds:
    """Current block of producer ids of this broker."""

    def __init__(self, allocate: AllocateBlock) -> None:
        self._allocate = allocate
        self._block: Iterator[int] = iter(())
        self._refill: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """Return an unused producer id. If the controller returns no block, all waiting calls raise its error."""
        while True:
            for producer_id in self._block:
                return producer_id
            if self._refill is None:
                self._refill = asyncio.get_running_loop().create_task(self._fill())
                # The waiting calls raise the error; this callback retrieves it if none is left.
                self._refill.add_done_callback(lambda refill: refill.cancelled() or refill.exception())
            await asyncio.shield(self._refill)

    async def _fill(self) -> None:
        try:
            block = await self._allocate()
            assert block, "the controller gave an empty block of producer ids"
            self._block = iter(block)
        finally:
            self._refill = None
