"""Telling the controller in which log directories this broker has put its replicas (KIP-858).

A broker with one directory has nothing to tell: the controller knows. One with several chooses where a new log goes,
and the controller must know it to find others to lead when a directory fails. A replica that is given up
(kwire.server.lost_replicas) is told to be in a directory that is lost.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable, Mapping
from itertools import islice
from uuid import UUID

from kwire.cluster.controller.view import directory_of
from kwire.cluster.directory_ids import LOST
from kwire.cluster.image import PartitionImage
from kwire.cluster.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kwire.server.active_controller import ActiveController

logger = logging.getLogger(__name__)

AT_ONCE = 2000
"""Replicas in one request; Kafka's brokers send as many."""
RETRY_SECONDS = 1.0

Replica = tuple[UUID, int]
"""(topic id, partition index)"""


class DirectoryAssignments:
    """Owns what the controller is yet to be told."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        directory_ids: Mapping[str, UUID],
        active_controller: ActiveController,
    ) -> None:
        """`directory_ids` are those of the log directories, by path."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_ids = directory_ids
        self._active_controller = active_controller
        self._untold: dict[Replica, UUID] = {}
        self._lost: set[Replica] = set()
        """Given up, whether or not the metadata that are known here say so by now."""
        self._promotions: dict[Replica, UUID] = {}
        """Directories that moved replicas are about to be in: the controller is told before they are."""
        self._awaited: dict[Replica, asyncio.Future[None]] = {}
        """Resolved when the controller has been told of the promotion."""
        self._woken = asyncio.Event()

    def note(self, partition: Partition) -> None:
        """A log is open, or has moved: tell where, unless the metadata say so and will not be told otherwise."""
        replica = (partition.topic_id, partition.index)
        directory = self._promotions.get(replica) or self._directory_ids.get(posixpath.dirname(partition.log.directory))
        is_said = directory == directory_of(partition.image, self._broker_id)
        is_known = is_said and replica not in self._untold and replica not in self._lost
        if directory is not None and not is_known:
            self._lost.discard(replica)
            self._untold[replica] = directory
            self._woken.set()

    def begin_promotion(self, partition: Partition, path: str) -> asyncio.Future[None]:
        """Tell the controller that a replica is in the log directory to which it moves, before its log takes the place.

        If that directory fails the moment after, the controller knows whose leaders to replace. The future is resolved
        when the controller has been told; end_promotion() is to be called in any case.
        """
        replica = (partition.topic_id, partition.index)
        awaited = self._awaited[replica] = asyncio.get_running_loop().create_future()
        self._promotions[replica] = self._directory_ids[path]
        self.note(partition)
        if replica not in self._untold:
            awaited.set_result(None)
        return awaited

    def end_promotion(self, partition: Partition) -> None:
        """The replica is where its log is: in the new directory, or, if the move has failed, in the old one."""
        replica = (partition.topic_id, partition.index)
        del self._promotions[replica]
        self._awaited.pop(replica).cancel()
        if not partition.is_removed:
            self.look(partition)

    def look(self, partition: Partition) -> None:
        """The metadata have changed: a request that was on its way for long may have put the replica elsewhere."""
        if (partition.topic_id, partition.index) not in self._lost:
            self.note(partition)

    def lose(self, replica: Replica, image: PartitionImage) -> None:
        """The replica is given up, until its log is noted again."""
        self._lost.add(replica)
        if replica in self._untold or directory_of(image, self._broker_id) != LOST:
            self._untold[replica] = LOST
            self._woken.set()

    def forget(self, partition: Partition) -> None:
        """The replica is gone from this broker."""
        self._lost.discard((partition.topic_id, partition.index))

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._untold:
                if not await self._tell(dict(islice(self._untold.items(), AT_ONCE))):
                    await asyncio.sleep(RETRY_SECONDS)

    async def _tell(self, told: Mapping[Replica, UUID]) -> bool:
        """Whether the controller has taken note of all of these; those are not told again."""
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=_by_directory(told)
        )
        try:
            response: AssignReplicasToDirsResponse = await self._active_controller.ask_until_answered(request)
        except KafkaError as error:
            logger.warning("the controller could not be told of log directories: %s", error)
            return False
        if response.error_code != ErrorCode.NONE:
            logger.warning("the controller refused log directories: %s", ErrorCode(response.error_code).name)
            return False
        for replica, directory in told.items():  # what it refused one by one is deleted, or moved away, meanwhile
            if self._untold.get(replica) == directory:
                del self._untold[replica]
            awaited = self._awaited.get(replica)
            if awaited is not None and not awaited.done() and self._promotions[replica] == directory:
                awaited.set_result(None)
        return True


def _by_directory(told: Mapping[Replica, UUID]) -> list[AssignReplicasToDirsRequestDirectoryData]:
    grouped: dict[UUID, dict[UUID, list[int]]] = {}
    for (topic_id, index), directory in told.items():
        grouped.setdefault(directory, {}).setdefault(topic_id, []).append(index)
    return [
        AssignReplicasToDirsRequestDirectoryData(
            id=directory,
            topics=[
                AssignReplicasToDirsRequestTopicData(
                    topic_id=topic_id,
                    partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes],
                )
                for topic_id, indexes in topics.items()
            ],
        )
        for directory, topics in grouped.items()
    ]
