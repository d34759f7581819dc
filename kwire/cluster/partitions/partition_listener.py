"""Interface for the components that are notified of changes of the partitions of a broker."""

from __future__ import annotations

from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.partitions.partition import Partition


class PartitionListener:
    """Receiver of the changes of a broker's partitions. A subclass overrides the methods that it needs."""

    def partition_opened(self, partition: Partition) -> None:
        """Called for each partition that this broker begins to lead or follow."""

    def leader_epoch_changed(self, partition: Partition) -> None:
        """Called after a partition was opened, and whenever its leader or leader epoch changes."""

    def role_changed(self, partition: Partition) -> None:
        """Called when this broker begins or ceases to lead a partition."""

    def partition_updated(self, partition: Partition) -> None:
        """Called when the metadata of an open partition have changed, after the other methods."""

    def partition_removed(self, partition: Partition) -> None:
        """Called for each partition that is removed from this broker."""

    def partition_closed(self, topic: TopicImage, index: int, is_damaged: bool) -> None:
        """Called for a partition that stays closed.

        If the log cannot be opened for now, it is called at each attempt. If the log is damaged, it is called at each
        change of the topic's metadata.
        """

    def topic_deleted(self, topic: TopicImage) -> None:
        """Called for each topic that is deleted, whichever brokers had it."""

    def more_work_found(self) -> None:
        """Called when there is work for `configure_more`, `open_more` or `removals` of Partitions."""
