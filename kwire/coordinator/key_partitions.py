"""Maps a group id or a transactional id to its partition of an internal topic."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kwire.cluster.image import MetadataImage
from kwire.coordinator.key_hash import partition_of
from kwire.protocol.error_codes import ErrorCode, KafkaError


class KeyPartitions:
    """Partitions of keys, by the number that the topic had when this broker first knew of it.

    When the topic grows, keys stay where their records are until the broker starts again, as in Apache Kafka
    (GroupCoordinatorService and TransactionStateManager take the number at startup).
    """

    def __init__(self, topic: str, image: Callable[[], MetadataImage]) -> None:
        self._topic = topic
        self._image = image
        self._seen: tuple[UUID, int] | None = None
        """The topic's id, and how many partitions it had."""

    def look(self) -> None:
        """Note the topic if it is new."""
        topic = self._image().topics.get(self._topic)
        if topic is not None and (self._seen is None or self._seen[0] != topic.topic_id):
            self._seen = topic.topic_id, len(topic.partitions)

    def of(self, key: str) -> int:
        """The partition of a key. Raises KafkaError, NOT_COORDINATOR while there is no such topic."""
        self.look()
        if self._seen is None or self._topic not in self._image().topics:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return partition_of(key, self._seen[1])
