"""AssignReplicasToDirs: a broker tells in which of its log directories its replicas are (KIP-858)."""

from __future__ import annotations

from uuid import UUID

from kwire.cluster.controller.broker_changes import plan_updates
from kwire.cluster.controller.partition_changes import Target, plan_partition_change
from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.directory_ids import is_online
from kwire.cluster.image import NO_LEADER, PartitionImage, changed_partition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from kwire.protocol.messages.metadata_records import PartitionChangeRecord


def plan_directory_assignments(
    view: ControllerView, request: AssignReplicasToDirsRequest
) -> tuple[list[PartitionChangeRecord], AssignReplicasToDirsResponse]:
    """The records that put replicas where they are, and the answer. Raises KafkaError STALE_BROKER_EPOCH.

    A replica in a directory that is offline, as one that fails while the broker moves it there, is in sync no longer.
    """
    view.check_broker_epoch(request.broker_id, request.broker_epoch)
    assignments = _Assignments(view, request.broker_id)
    response = AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(
                                partition_index=each.partition_index,
                                error_code=assignments.add(directory.id, topic.topic_id, each.partition_index),
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
    return assignments.records, response


class _Assignments:
    """What one request has changed so far."""

    def __init__(self, view: ControllerView, broker_id: int) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._changed: dict[tuple[UUID, int], PartitionImage] = {}
        self._view = view
        self._broker_id = broker_id

    def add(self, directory: UUID, topic_id: UUID, index: int) -> ErrorCode:
        topic = self._view.image.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        place = Place(topic, index, self._changed.get((topic_id, index), topic.partitions[index]))
        if self._broker_id not in place.partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        record = plan_partition_change(self._view, place, Target(directories={self._broker_id: directory}))
        place = self._take(place, record)
        if not is_online(directory, self._view.image.brokers[self._broker_id].directories):
            for update in plan_updates(self._view, [place], removed=self._broker_id):
                place = self._take(place, update)
        elif place.partition.leader == NO_LEADER:  # this replica may be what was waited for
            self._take(place, plan_partition_change(self._view, place, Target()))
        return ErrorCode.NONE

    def _take(self, place: Place, record: PartitionChangeRecord | None) -> Place:
        if record is None:
            return place
        self.records.append(record)
        changed = changed_partition(place.partition, record)
        self._changed[place.topic.topic_id, place.partition_id] = changed
        return place._replace(partition=changed)
