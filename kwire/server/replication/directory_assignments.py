"""Directory assignments: reports to the controller in which log directory each replica of this broker is (KIP-858).

A broker with one directory reports nothing, because the registration contains that directory. A broker with several
directories chooses one for each new log. The controller needs this choice to elect other leaders when a directory
fails. A lost replica (kwire.server.replication.lost_replicas) is reported in the directory id LOST.
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
from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kwire.server.other_nodes.active_controller import ActiveController
from kwire.server.other_nodes.controller_retries import RETRY_SECONDS, send_when_woken

logger = logging.getLogger(__name__)

AT_ONCE = 2000
"""Replicas in one request, as many as Kafka's brokers send."""

Replica = tuple[UUID, int]
"""Pair of topic id and partition index."""


class DirectoryAssignments:
    """Assignments that the controller has not confirmed yet."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        directory_ids: Mapping[str, UUID],
        active_controller: ActiveController,
    ) -> None:
        """`directory_ids` are the ids of the log directories, by path."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_ids = directory_ids
        self._active_controller = active_controller
        self._unconfirmed: dict[Replica, UUID] = {}
        self._lost: set[Replica] = set()
        """Replicas that were reported as lost, even if this broker's metadata do not show it yet."""
        self._promotions: dict[Replica, UUID] = {}
        """Directories that replicas move to: the controller gets the assignment before the move completes."""
        self._awaited: dict[Replica, asyncio.Future[None]] = {}
        """Futures that are resolved when the controller has confirmed the promotion."""
        self._woken = asyncio.Event()

    def report(self, partition: Partition) -> None:
        """Report where an open or moved log is, unless the metadata contain it and no pending request changes that."""
        replica = (partition.topic_id, partition.index)
        directory = self._promotions.get(replica) or self._directory_ids.get(posixpath.dirname(partition.log.directory))
        is_in_metadata = directory == directory_of(partition.image, self._broker_id)
        is_known = is_in_metadata and replica not in self._unconfirmed and replica not in self._lost
        if directory is not None and not is_known:
            self._lost.discard(replica)
            self._unconfirmed[replica] = directory
            self._woken.set()

    def begin_promotion(self, partition: Partition, path: str) -> asyncio.Future[None]:
        """Report that a replica is in the log directory it moves to, before the moved log replaces the old one.

        If that directory fails right after the move, the controller knows which leaders to replace. The future is
        resolved when the controller has confirmed. The caller must call end_promotion() in any case.
        """
        replica = (partition.topic_id, partition.index)
        awaited = self._awaited[replica] = asyncio.get_running_loop().create_future()
        self._promotions[replica] = self._directory_ids[path]
        self.report(partition)
        if replica not in self._unconfirmed:
            awaited.set_result(None)
        return awaited

    def end_promotion(self, partition: Partition) -> None:
        """End a promotion. The replica is now in the new directory, or in the old one if the move failed."""
        replica = (partition.topic_id, partition.index)
        del self._promotions[replica]
        self._awaited.pop(replica).cancel()
        if not partition.is_removed:
            self.check(partition)

    def check(self, partition: Partition) -> None:
        """Check a replica after a metadata change: a delayed request may have changed its directory."""
        if (partition.topic_id, partition.index) not in self._lost:
            self.report(partition)

    def lose(self, replica: Replica, image: PartitionImage) -> None:
        """Report a replica as lost, until its log is reported again."""
        self._lost.add(replica)
        if replica in self._unconfirmed or directory_of(image, self._broker_id) != LOST:
            self._unconfirmed[replica] = LOST
            self._woken.set()

    def forget(self, partition: Partition) -> None:
        """Forget a replica that was removed from this broker."""
        self._lost.discard((partition.topic_id, partition.index))

    async def run(self) -> None:
        """Send assignments for as long as the broker runs."""
        await send_when_woken(self._woken, self._send_all, RETRY_SECONDS)

    async def _send_all(self) -> bool:
        """Send all assignments; return False if some must be sent again."""
        while self._unconfirmed:
            if not await self._send(dict(islice(self._unconfirmed.items(), AT_ONCE))):
                return False
        return True

    async def _send(self, assigned: Mapping[Replica, UUID]) -> bool:
        """Send assignments; return True if the controller has stored them, so that they need not be sent again."""
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=_by_directory(assigned)
        )
        try:
            response: AssignReplicasToDirsResponse = await self._active_controller.send_until_answered(request)
        except KafkaError as error:
            logger.warning("cannot report log directories to the controller: %s", error)
            return False
        if response.error_code != ErrorCode.NONE:
            logger.warning("the controller rejected log directories: %s", ErrorCode(response.error_code).name)
            return False
        for replica, directory in assigned.items():  # a replica that it rejects was deleted or reassigned
            if self._unconfirmed.get(replica) == directory:
                del self._unconfirmed[replica]
            awaited = self._awaited.get(replica)
            if awaited is not None and not awaited.done() and self._promotions[replica] == directory:
                awaited.set_result(None)
        return True


def _by_directory(assigned: Mapping[Replica, UUID]) -> list[AssignReplicasToDirsRequestDirectoryData]:
    grouped: dict[UUID, dict[UUID, list[int]]] = {}
    for (topic_id, index), directory in assigned.items():
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
