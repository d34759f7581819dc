"""Partitions that come, change or go many at once: some of them in each turn of the loop, others in between."""

from __future__ import annotations

import asyncio

from kwire.cluster.partitions import Partitions
from kwire.seams import Workers


class PartitionTurns:
    """Owns the turns. A partition that is asked for before its turn is opened then."""

    def __init__(self, partitions: Partitions, workers: Workers) -> None:
        self._partitions = partitions
        self._removals = partitions.removals
        self._workers = workers
        self._came = asyncio.Event()
        partitions.on_unfinished = self._came.set

    async def run(self) -> None:
        """For as long as the broker runs. What is new may have the name of what goes: that goes first."""
        while True:
            await self._came.wait()
            self._came.clear()
            await self.finish_removals()
            while self._partitions.open_more():
                await asyncio.sleep(0)
                await self.finish_removals()

    async def finish_removals(self) -> None:
        """Remove, durably, all that this broker has no more. Logs that stay take new configurations before."""
        while self._partitions.configure_more() or self._removals.do_more():
            await asyncio.sleep(0)
        for job in self._removals.settling():
            await self._workers.run(job.run)
            job.finish()
