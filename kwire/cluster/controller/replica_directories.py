"""AssignReplicasToDirs: a broker tells in which of its log directories its replicas are (KIP-858)."""

from __future__ import annotations

from itertools import islice
from uuid import UUID

from kwire.chunks import Pieces, at_once, mapped_by_group
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


class DirectoryAssignments:
    """The assignments of one request, planned in pieces.

    A replica in a directory that is offline, as one that fails while the broker moves it there, is in sync no longer.
    """

    def __init__(self, request: AssignReplicasToDirsRequest, view: ControllerView) -> None:
        self._request = request
        self._broker_id = request.broker_id
        self.begin(view)

    def begin(self, view: ControllerView) -> None:
        """Plan on this view from now on: `records` are appended, or there are none.

        Raises KafkaError STALE_BROKER_EPOCH.
        """
        view.check_broker_epoch(self._request.broker_id, self._request.broker_epoch)
        self.records: list[PartitionChangeRecord] = []
        self._changed: dict[tuple[UUID, int], PartitionImage] = {}
        self._view = view

    def answer(self) -> Pieces[AssignReplicasToDirsResponse]:
        """Add to `records` what puts replicas where they are, and return the answer."""
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
        place = Place(topic, index, self._changed.get((topic_id, index), topic.partitions[index]))
        if self._broker_id not in place.partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        record = plan_partition_change(self._view, place, Target(directories={self._broker_id: directory}))
        place = self._take(place, record)
        if not is_online(directory, self._view.image.brokers[self._broker_id].directories):
            for update in at_once(plan_updates(self._view, [place], removed=self._broker_id)):
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
