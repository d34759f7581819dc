"""Listeners that record what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.raft.metadata_log import MetadataPublisher


class RecordedPartitions(PartitionListener):
    """Listener of partitions with a list for each kind of change."""

    def __init__(self) -> None:
        self.removed: list[int] = []
        """Indexes of removed partitions."""
        self.closed: list[tuple[str, int, bool]] = []
        """Closed partitions: topic, index, and whether the log is damaged."""
        self.work_left = 0
        """Number of calls of more_work_found."""
        self.on_more_work: Callable[[], None] = lambda: None
        """Called with each of them."""

    def partition_removed(self, partition: Partition) -> None:
        self.removed.append(partition.index)

    def partition_closed(self, topic: TopicImage, index: int, is_damaged: bool) -> None:
        self.closed.append((topic.name, index, is_damaged))

    def more_work_found(self) -> None:
        self.work_left += 1
        self.on_more_work()


class ForwardedPartitions(PartitionListener):
    """Listener of partitions that calls coordinators."""

    def __init__(self, *coordinators: Any) -> None:
        self._coordinators = coordinators

    def partition_removed(self, partition: Partition) -> None:
        for coordinator in self._coordinators:
            coordinator.partition_removed(partition)

    def topic_deleted(self, topic: TopicImage) -> None:
        self._coordinators[0].topic_deleted(topic)


class PublishedTo(MetadataPublisher):
    """Publisher that calls one function with each committed change."""

    def __init__(self, publish: Callable[[MetadataDelta], object]) -> None:
        self._publish = publish

    def publish(self, delta: MetadataDelta) -> None:
        self._publish(delta)
