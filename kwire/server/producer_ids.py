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
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody has had."""
        async with self._refill:
            for producer_id in self._block:
                return producer_id
            block = await self._allocate()
            assert block, "the controller gave an empty block of producer ids"
            self._block = iter(block)
            return next(self._block)
