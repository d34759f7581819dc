"""DescribeTopicPartitions: return topics in order of name, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from heapq import merge
from typing import Final

from kwire.chunks import CHUNK, chunks
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.security.acls import ResourceType
from kwire.cluster.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations
from kwire.server.requests.context import RequestContext
from kwire.server.settings.requests import RequestSettings

NAMES_AT_ONCE: Final = 1024
"""Names that are filtered in one step: each takes less time than the description of a topic."""


def handle_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    limit = context.services.settings.of(RequestSettings).described_partitions_max
    remaining = max(1, min(request.response_partition_limit, limit))
    cursor = request.cursor
    if cursor is not None and _is_wrong(cursor, request):
        return _rejected(request)
    response = DescribeTopicPartitionsResponse()
    topics = context.services.image.topics
    names = yield from _names(request, context, "" if cursor is None else cursor.topic_name)
    for number, name in enumerate(names, 1):
        if number % CHUNK == 0:
            yield
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if remaining == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=first)
            break
        described, next_index = yield from _describe(name, topics.get(name), first, remaining, context)
        response.topics.append(described)
        remaining -= len(described.partitions)
        if next_index is not None:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=next_index)
            break
    return response


def _is_wrong(cursor: DescribeTopicPartitionsRequestCursor, request: DescribeTopicPartitionsRequest) -> bool:
    """Return True if a cursor is not in one of the requested topics."""
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        return True
    return cursor.partition_index < 0


def _rejected(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=ErrorCode.INVALID_REQUEST)
            for topic in request.topics
        ]
    )


def _names(
    request: DescribeTopicPartitionsRequest, context: RequestContext, first: str
) -> Generator[None, None, Iterable[str]]:
    """Return the names from `first` on, in order; they are sorted in parts and merged while they are read."""
    named: Iterable[str]
    if request.topics:
        named = {topic.name: None for topic in request.topics}
    else:
        names = context.services.image.topics
        named = (name for name in names if context.allows_topic(name, is_requested=False))
    parts: list[list[str]] = []
    for chunk in chunks(named, NAMES_AT_ONCE):
        yield
        parts.append(sorted(name for name in chunk if name >= first))
    return merge(*parts)


def _describe(
    name: str, topic: TopicImage | None, first: int, limit: int, context: RequestContext
) -> Generator[None, None, tuple[DescribeTopicPartitionsResponseTopic, int | None]]:
    """Describe a topic from partition `first` on; also return the partition to continue with if it did not fit."""
    if not context.allows_topic(name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return DescribeTopicPartitionsResponseTopic(name=name, error_code=code), None
    if topic is None:
        return _unknown(name, context), None
    last = min(first + limit, len(topic.partitions))
    described = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )
    for chunk in chunks(range(first, last)):
        yield
        described.partitions += [_partition(topic, index, context) for index in chunk]
    return described, last if last < len(topic.partitions) else None


def _unknown(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if why_invalid(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )


def _partition(topic: TopicImage, index: int, context: RequestContext) -> DescribeTopicPartitionsResponsePartition:
    services = context.services
    partition: PartitionImage = topic.partitions[index]
    alive = {broker for broker in partition.replicas if services.endpoint(broker, context.listener_name) is not None}
    has_leader = partition.leader in alive
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[broker for broker in partition.replicas if broker not in alive],
    )


API = Api(
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    handle=handle_describe_topic_partitions,
)
