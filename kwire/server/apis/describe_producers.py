"""DescribeProducers: the producers that a replica, the leader or a follower, remembers (KIP-664)."""

from __future__ import annotations

from kwire.cluster.topic_names import why_invalid
from kwire.log.producer_state import ProducerEntry
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_partition(topic.name, index, context) for index in dict.fromkeys(topic.partition_indexes)],
            )
            for topic in _without_repeats(request.topics)
        ]
    )


def _without_repeats(topics: list[DescribeProducersTopicRequest]) -> list[DescribeProducersTopicRequest]:
    """What is named again is answered once: a short request must not make an answer without bounds."""
    indexes: dict[str, list[int]] = {}
    for topic in topics:
        indexes.setdefault(topic.name, []).extend(topic.partition_indexes)
    return [DescribeProducersTopicRequest(name=name, partition_indexes=every) for name, every in indexes.items()]


def _partition(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        why = why_invalid(topic)
        if why:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")
        if not context.allows_topic(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.find(topic, index, may_follow=True)
    except KafkaError as error:
        # Kafka has words for a topic that is not there, and none for one that has no such partition.
        message = error.message or (None if topic in context.services.image.topics else error.code.meaning)
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[_producer(entry) for entry in partition.log.active_producers()],
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_transaction_first_offset,
    )


API = Api(request=DescribeProducersRequest, response=DescribeProducersResponse, handle=handle)
