"""Partition changes of one request, planned in pieces, each on the newest image."""

from __future__ import annotations

from uuid import UUID

from kwire.cluster.controller.view import ControllerView, Place
from kwire.cluster.metadata.image import PartitionImage, TopicImage, changed_partition
from kwire.protocol.messages.metadata_records import PartitionChangeRecord


class RequestedChanges:
    """Records planned so far. A partition that is named twice is changed from the result of its first change."""

    def __init__(self, view: ControllerView) -> None:
        self.begin(view)

    def begin(self, view: ControllerView) -> None:
        """Continue on this view, after `records` were appended, or at the beginning."""
        self.records: list[PartitionChangeRecord] = []
        self._changed: dict[tuple[UUID, int], PartitionImage] = {}
        self._view = view

    def _place(self, topic: TopicImage, index: int) -> Place:
        """Return a partition with its changes so far."""
        return Place(topic, index, self._changed.get((topic.topic_id, index), topic.partitions[index]))

    def _add_record(self, place: Place, record: PartitionChangeRecord | None) -> Place:
        """Add the record, if there is one, and return the partition after it."""
        if record is None:
            return place
        self.records.append(record)
        changed = changed_partition(place.partition, record)
        self._changed[place.topic.topic_id, place.partition_id] = changed
        return place._replace(partition=changed)
