"""New partitions that come many at once are opened some at a turn of the loop, and others are served in between."""

from __future__ import annotations

import asyncio

from kwire.cluster.partitions import Partitions


class PartitionOpening:
    """Owns the turns. A partition that is asked for before its turn is opened then."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._came = asyncio.Event()
        partitions.on_unopened = self._came.set

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._partitions.open_more():
                await asyncio.sleep(0)
