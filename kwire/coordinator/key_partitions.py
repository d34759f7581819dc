"""Mapping of a group id or a transactional id to its partition of an internal topic."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.key_hash import partition_of
from kwire.protocol.error_codes import ErrorCode, KafkaError


class KeyPartitions:
    """Partitions of keys, computed with the topic's partition count when this broker first saw it.

    If partitions are added, keys keep their partition until the broker restarts. Apache Kafka does the same:
    GroupCoordinatorService and TransactionStateManager read the number at startup.
    """

    def __init__(self, topic: str, image: Callable[[], MetadataImage]) -> None:
        self._topic = topic
        self._image = image
        self._stored: tuple[UUID, int] | None = None
        """The topic's id and its partition count."""

    def store_partition_count(self) -> None:
        """Store the topic's partition count if the topic is new."""
        topic = self._image().topics.get(self._topic)
        if topic is not None and (self._stored is None or self._stored[0] != topic.topic_id):
            self._stored = topic.topic_id, len(topic.partitions)

    def find(self, key: str) -> int:
        """Return the partition of a key. Raises NOT_COORDINATOR if the topic does not exist."""
        self.store_partition_count()
        if self._stored is None or self._topic not in self._image().topics:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return partition_of(key, self._stored[1])
