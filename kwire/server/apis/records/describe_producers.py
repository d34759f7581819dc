"""DescribeProducers: return the active producers of a replica, leader or follower (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kwire.chunks import Pieces, mapped, mapped_in_pieces
from kwire.cluster.topic_names import why_invalid
from kwire.log.producer_state import ProducerEntry
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.repeats import once_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_describe_producers(
    request: DescribeProducersRequest, context: RequestContext
) -> Pieces[DescribeProducersResponse]:
    # Each partition once: a short request must not get an unbounded response.
    indexes = yield from once_each((topic.name, topic.partition_indexes) for topic in request.topics)
    topics = yield from mapped_in_pieces(indexes.items(), partial(_topic, context))
    return DescribeProducersResponse(topics=topics)


def _topic(context: RequestContext, asked: tuple[str, Iterable[int]]) -> Pieces[TopicResponse]:
    name, indexes = asked
    partitions = yield from mapped_in_pieces(indexes, lambda index: _partition(name, index, context))
    return TopicResponse(name=name, partitions=partitions)


def _partition(topic: str, index: int, context: RequestContext) -> Pieces[PartitionResponse]:
    try:
        why = why_invalid(topic)
        if why:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")
        if not context.allows_topic(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.find(topic, index, can_follow=True)
    except KafkaError as error:
        # Kafka has a message for a topic that does not exist, and none for a topic without that partition.
        message = error.message or (None if topic in context.services.image.topics else error.code.meaning)
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=message)
    producers = yield from mapped(partition.log.producers.active(), _producer)
    return PartitionResponse(partition_index=index, active_producers=producers)


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_transaction_first_offset,
    )


API = Api(request=DescribeProducersRequest, response=DescribeProducersResponse, handle=handle_describe_producers)
