"""Lost replicas: replicas that fail on a running broker. The controller is notified, and others replace them.

A replica with a damaged log stays lost until the broker starts again. A replica without disk space comes back when
there is space, also if its log had no space to be opened. A replica that no other could replace stays, and its
producers wait. Each replica is checked again when its metadata change: another replica may now be able to replace a
lost one, or a delayed report may have overwritten a newer one.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.partitions.partition import Partition
from kwire.log.disk import Disk, DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.server.replication.directory_assignments import DirectoryAssignments, Replica
from kwire.server.replication.replication import Replication

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
ENOUGH_SPACE_BYTES: Final = 1 << 20
"""Free space needed for a replica to come back: with less, the next append could fail again."""


class LostReplicas:
    """Lost replicas of this broker, and the wait for their return."""

    def __init__(
        self,
        *,
        broker_id: int,
        replication: Replication,
        assignments: DirectoryAssignments,
        disk: Disk,
    ) -> None:
        self._broker_id = broker_id
        self._replication = replication
        self._assignments = assignments
        self._disk = disk
        self._full: dict[Replica, Partition] = {}
        """Partitions whose logs lack space."""
        self._woken = asyncio.Event()

    def opened(self, partition: Partition) -> None:
        """Report the directory of a log that is open or has moved, and watch its health."""
        partition.log.health.on_trouble = partial(self._in_trouble, partition)
        self._assignments.report(partition)

    def not_opened(self, topic: TopicImage, index: int, is_damaged: bool) -> None:
        """Report a replica as lost: until its log is open if it lacks space, until the next start if it is damaged."""
        self._give_up((topic.topic_id, index), topic.partitions[index], is_damaged=is_damaged)

    def updated(self, partition: Partition) -> None:
        """Check a partition whose metadata changed: another replica may now be able to replace a lost one."""
        log = partition.log
        if log.health.lacks_space or _is_damaged(log):
            self._give_up_open(partition)
        elif log.failure is None:
            self._assignments.check(partition)

    def removed(self, partition: Partition) -> None:
        """Forget a partition that was removed from this broker."""
        self._full.pop((partition.topic_id, partition.index), None)
        self._assignments.forget(partition)
        partition.log.health.on_trouble = None  # otherwise the partition would be part of a reference cycle

    def _in_trouble(self, partition: Partition) -> None:
        if partition.is_removed:
            return
        asyncio.get_running_loop().call_soon(partition.wake)  # after the call that met the failure
        if _is_damaged(partition.log):
            self._replication.stop_following(partition)
        else:  # a follower pauses meanwhile (kwire.cluster.replication.fetcher)
            self._full[partition.topic_id, partition.index] = partition
            self._woken.set()
        self._give_up_open(partition)

    def _give_up_open(self, partition: Partition) -> None:
        is_damaged = _is_damaged(partition.log)
        self._give_up((partition.topic_id, partition.index), partition.image, is_damaged=is_damaged)

    def _give_up(self, replica: Replica, image: PartitionImage, *, is_damaged: bool = False) -> None:
        """Report a replica as lost, if other replicas can replace it."""
        others = set(image.isr)
        if is_damaged:  # any replica with all committed records may lead instead
            others.update(image.eligible_leader_replicas)
        elif self._broker_id not in others:
            return
        if others - {self._broker_id}:
            self._assignments.lose(replica, image)

    async def run(self) -> None:
        """Check the lost replicas without space for as long as the broker runs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._full:
                await asyncio.sleep(CHECK_SECONDS)
                self._take_back()

    def _take_back(self) -> None:
        """Bring back the replicas that have space again: they lead or follow again."""
        for key, partition in list(self._full.items()):
            log = partition.log
            if log.failure is not None:
                del self._full[key]
            elif self._has_space(log):
                del self._full[key]
                log.health.space_found()
                logger.info("%s-%d has space again", partition.topic, partition.index)
                self._assignments.report(partition)

    def _has_space(self, log: PartitionLog) -> bool:
        try:
            return self._disk.space(log.directory)[1] >= ENOUGH_SPACE_BYTES
        except DiskFailure as failure:  # the next write there takes the directory offline
            logger.warning("%r: %s", log, failure)
            return False


def _is_damaged(log: PartitionLog) -> bool:
    return isinstance(log.failure, CorruptLogError)
