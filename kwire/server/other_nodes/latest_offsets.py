"""High watermarks of partitions, of which other brokers may be the leaders."""

from __future__ import annotations

from kwire.cluster.channel import Unreachable
from kwire.cluster.partitions.partitions import Partitions
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.server.other_nodes.other_brokers import OtherBrokers

CONSUMER = -1


class LatestOffsets:
    """Client of partition leaders, for the high watermarks of their partitions."""

    def __init__(self, partitions: Partitions, others: OtherBrokers) -> None:
        self._partitions = partitions
        self._others = others

    async def find(self, topic: str, index: int) -> int:
        """Return the high watermark of a partition. Raises KafkaError."""
        partition = self._partitions.get(topic, index)
        if partition is not None and partition.is_led:
            return partition.high_watermark
        image = self._others.image.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        requested = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[requested])])
        try:
            response = await self._others.send(image.partitions[index].leader, request)
        except Unreachable as error:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
        found = response.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(found.error_code))
        offset: int = found.offset
        return offset
