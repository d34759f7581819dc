"""Producer ids: taken from the controller in blocks, given out one by one. An id is never given twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

AllocateBlock = Callable[[], Awaitable[range]]


class ProducerIds:
    """The block that this broker is spending."""

    def __init__(self, allocate: AllocateBlock) -> None:
        self._allocate = allocate
        self._block: Iterator[int] = iter(())
        self._refill: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """A producer id that nobody has had. Raises what keeps the controller from giving a block, to all who wait."""
        while True:
            for producer_id in self._block:
                return producer_id
            if self._refill is None:
                self._refill = asyncio.get_running_loop().create_task(self._fill())
                # Those who wait are told why there is none, if any are left.
                self._refill.add_done_callback(lambda refill: refill.cancelled() or refill.exception())
            await asyncio.shield(self._refill)

    async def _fill(self) -> None:
        try:
            block = await self._allocate()
            assert block, "the controller gave an empty block of producer ids"
            self._block = iter(block)
        finally:
            self._refill = None
