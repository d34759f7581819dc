"""Replicas that cannot go on although their broker can: the controller is told, and others lead and are in sync.

One whose log is damaged stays given up until the broker starts again. One whose disk was full comes back when there is
space. One that nobody else could stand in for keeps its place, and its producers wait.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final
from uuid import UUID

from kwire.cluster.partition import Partition
from kwire.cluster.partitions import Partitions
from kwire.log.disk import Disk
from kwire.server.directory_assignments import DirectoryAssignments
from kwire.server.replication import Replication

logger = logging.getLogger("kwire.server.lost_replicas")

LOOK_SECONDS: Final = 1.0
ENOUGH_SPACE_BYTES: Final = 1 << 20
"""Less is not worth a return: the next append could be refused again."""


class LostReplicas:
    """Owns which replicas of this broker are given up, and for how long."""

    def __init__(
        self,
        *,
        broker_id: int,
        partitions: Partitions,
        replication: Replication,
        assignments: DirectoryAssignments,
        disk: Disk,
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._replication = replication
        self._assignments = assignments
        self._disk = disk
        self._full: dict[tuple[UUID, int], Partition] = {}
        """Those whose logs lack space."""
        self._woken = asyncio.Event()

    def opened(self, partition: Partition) -> None:
        """A log is open, or has moved."""
        partition.log.on_trouble = partial(self._in_trouble, partition)
        self._assignments.note(partition)

    def _in_trouble(self, partition: Partition) -> None:
        if partition.log.failure is not None:
            self._replication.stop_following(partition)
        else:  # who follows rests meanwhile (kwire.cluster.replication.fetcher)
            self._full[partition.topic_id, partition.index] = partition
            self._woken.set()
        in_sync = partition.image.isr
        if self._broker_id in in_sync and len(in_sync) > 1:
            self._assignments.lose(partition)

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._full:
                await asyncio.sleep(LOOK_SECONDS)
                self._take_back()

    def _take_back(self) -> None:
        """What has space again, follows or leads again."""
        for key, partition in list(self._full.items()):
            log = partition.log
            if self._disk.space(log.directory)[1] >= ENOUGH_SPACE_BYTES:
                del self._full[key]
                log.lacks_space = False
                if log.failure is None and self._partitions.get(partition.topic, partition.index) is partition:
                    logger.info("%s-%d has space again", partition.topic, partition.index)
                    self._assignments.note(partition)
