"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from itertools import islice
from uuid import UUID

from kwire.chunks import Pieces, at_once, mapped_by_group
from kwire.cluster.controller.plans.broker_changes import plan_updates
from kwire.cluster.controller.plans.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.requested_changes import RequestedChanges
from kwire.cluster.controller.view import ControllerView
from kwire.cluster.directory_ids import is_online
from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)


class DirectoryAssignments(RequestedChanges):
    """Directory assignments of one request, planned in pieces.

    A replica in an offline directory leaves the in-sync set, for example if the directory fails during the move.
    """

    def __init__(self, request: AssignReplicasToDirsRequest, view: ControllerView) -> None:
        self._request = request
        self._broker_id = request.broker_id
        super().__init__(view)

    def begin(self, view: ControllerView) -> None:
        """Like RequestedChanges.begin. Raises KafkaError STALE_BROKER_EPOCH."""
        view.check_broker_epoch(self._request.broker_id, self._request.broker_epoch)
        super().begin(view)

    def answer(self) -> Pieces[AssignReplicasToDirsResponse]:
        """Add the records of the assignments to `records`, and return the response."""
        topics = yield from mapped_by_group(
            [(directory, topic) for directory in self._request.directories for topic in directory.topics],
            lambda group: group[1].partitions,
            lambda group, each: AssignReplicasToDirsResponsePartitionData(
                partition_index=each.partition_index,
                error_code=self._add(group[0].id, group[1].topic_id, each.partition_index),
            ),
            lambda group, results: AssignReplicasToDirsResponseTopicData(
                topic_id=group[1].topic_id, partitions=results
            ),
        )
        answered = iter(topics)
        return AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory.id, topics=list(islice(answered, len(directory.topics)))
                )
                for directory in self._request.directories
            ]
        )

    def _add(self, directory: UUID, topic_id: UUID, index: int) -> ErrorCode:
        topic = self._view.image.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        place = self._place(topic, index)
        if self._broker_id not in place.partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        record = plan_partition_change(self._view, place, Target(directories={self._broker_id: directory}))
        place = self._add_record(place, record)
        if not is_online(directory, self._view.image.brokers[self._broker_id].directories):
            for update in at_once(plan_updates(self._view, [place], removed=self._broker_id)):
                place = self._add_record(place, update)
        elif place.partition.leader == NO_LEADER:  # this replica may be the one that can lead
            self._add_record(place, plan_partition_change(self._view, place, Target()))
        return ErrorCode.NONE
