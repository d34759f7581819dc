"""Opening, configuring and removing many partitions: some in each turn of the event loop, with requests in between."""

from __future__ import annotations

import asyncio

from kwire.cluster.partitions.partitions import Partitions
from kwire.seams import Workers


class PartitionTurns:
    """Task for the turns. A partition that a request needs before its turn is opened at once."""

    def __init__(self, partitions: Partitions, workers: Workers) -> None:
        self._partitions = partitions
        self._removals = partitions.removals
        self._workers = workers
        self._woken = asyncio.Event()

    def more_work_found(self) -> None:
        """Start turns, because there are partitions to open, configure or remove."""
        self._woken.set()

    async def run(self) -> None:
        """Open and remove partitions for as long as the broker runs.

        Removals go first: a new topic may reuse a removed name.
        """
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self.configure_and_remove()
            while self._partitions.open_more():
                await asyncio.sleep(0)
                await self.configure_and_remove()

    async def configure_and_remove(self) -> None:
        """Give logs their new configurations; then remove, durably, all partitions that left this broker."""
        while self._partitions.configure_more() or self._removals.do_more():
            await asyncio.sleep(0)
        for job in self._removals.sync_jobs():
            await self._workers.run(job.run)
            job.finish()
