"""Metadata: return brokers, topics and the leaders of their partitions. A request for a topic may create it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

from kwire.chunks import at_once, chunks, is_many
from kwire.cluster.controller.view import directory_of
from kwire.cluster.directory_ids import is_online
from kwire.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from kwire.cluster.metadata.registrations import BrokerRegistration
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, METADATA_TOPIC, why_invalid
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations, cluster_operations
from kwire.server.requests.context import RequestContext
from kwire.server.settings.requests import RequestSettings

OWN_TOPICS = INTERNAL_TOPICS | {METADATA_TOPIC}
"""Topics that the broker creates with settings of their own, or not at all."""
UNREACHABLE_REPLICAS_SINCE = 1
"""First version that names unreachable replicas; before, they were an error."""
LISTENERS_SINCE = 6
"""First version whose clients know that a leader may lack the listener that the request arrived on."""
IDS_OR_NAMES_SINCE = 12
"""First version that uses topic ids; versions 10 and 11 have a field for ids, which must be empty."""


def handle_metadata(
    request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Generator[None, None, MetadataResponse]:
    topics = context.services.image.topics
    if request.topics is None or (context.version == 0 and not request.topics):
        answer = _describe(request, context, None)
        many = is_many(len(topic.partitions) for topic in topics.values())
    else:
        answer = _named_topics(request, request.topics, context)
        many = is_many(_size(topic, context.services.image) for topic in request.topics)
    return answer if many else at_once(answer)


def _size(asked: MetadataRequestTopic, image: MetadataImage) -> int:
    topic = image.topics.get(asked.name or "") if asked.topic_id == ZERO_UUID else image.topic_by_id(asked.topic_id)
    return 0 if topic is None else len(topic.partitions)


def _named_topics(
    request: MetadataRequest, named: Sequence[MetadataRequestTopic], context: RequestContext
) -> Generator[None, None, MetadataResponse]:
    by_id: dict[UUID, MetadataRequestTopic] = {}
    by_name: dict[str | None, MetadataRequestTopic] = {}
    for chunk in chunks(named):
        yield
        if context.version < IDS_OR_NAMES_SINCE and any(_needs_ids(topic) for topic in chunk):
            return (yield from _rejected(named))
        by_id.update({topic.topic_id: topic for topic in chunk if topic.topic_id != ZERO_UUID})
        by_name.update({topic.name: topic for topic in chunk})
    # Each named topic once; if some are named by id, topics without an id are ignored.
    asked = list(by_id.values()) or list(by_name.values())
    if not by_id and None in by_name:
        return (yield from _rejected(named))
    missing = {} if by_id else (yield from _to_create(request, asked, context))
    to_create = [name for name, is_allowed in missing.items() if is_allowed]
    if to_create:  # the client retries, as with Kafka
        context.services.topic_creator.create_soon(to_create)
    denied = missing.keys() - set(to_create)
    return (yield from _describe(request, context, asked, denied))


def _needs_ids(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _rejected(named: Sequence[MetadataRequestTopic]) -> Generator[None, None, MetadataResponse]:
    response = MetadataResponse()
    code = ErrorCode.INVALID_REQUEST
    for chunk in chunks(named):
        yield
        response.topics += [
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in chunk
        ]
    return response


def _to_create(
    request: MetadataRequest, asked: Sequence[MetadataRequestTopic], context: RequestContext
) -> Generator[None, None, dict[str, bool]]:
    """Return the missing topics that are to be created, and whether the client may create each of them."""
    services = context.services
    allowed = request.allow_auto_topic_creation or context.version < 4
    if not (allowed and services.settings.of(RequestSettings).creates_topics):
        return {}
    missing: dict[str, bool] = {}
    for chunk in chunks(asked):
        yield
        names = [topic.name for topic in chunk if topic.name is not None and _is_to_create(topic.name, context)]
        missing |= {name: _may_create(name, context) for name in names}
    return missing


def _is_to_create(name: str, context: RequestContext) -> bool:
    return (
        name not in context.services.image.topics
        and (name == GROUP_OFFSETS_TOPIC or name not in OWN_TOPICS)
        and not why_invalid(name)
        and context.allows_topic(name)
    )


def _may_create(name: str, context: RequestContext) -> bool:
    return context.allows_cluster(is_requested=False) or context.allows_to(Operation.CREATE, ResourceType.TOPIC, name)


@dataclass(frozen=True, slots=True)
class _View:
    """Cluster metadata of one moment, unchanged while the response is made in pieces."""

    image: MetadataImage
    alive: AbstractSet[int]
    """Brokers that are reachable by the client's listener."""


def _described(name: str, context: RequestContext, view: _View) -> TopicImage | MetadataResponseTopic:
    """Return a topic by its name, or the error result."""
    if not context.allows_topic(name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = view.image.topics.get(name)
    if topic is not None:
        return topic
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if why_invalid(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _unauthorized(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=asked.name)


def _found(asked: MetadataRequestTopic, context: RequestContext, view: _View) -> TopicImage | MetadataResponseTopic:
    if asked.topic_id == ZERO_UUID:
        assert asked.name is not None, "a topic with neither name nor id is rejected before"
        return _described(asked.name, context, view)
    known = view.image.topic_by_id(asked.topic_id)
    if known is None or not context.allows_topic(known.name):
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    return known


def _topic(topic: TopicImage, view: _View, version: int) -> Generator[None, None, MetadataResponseTopic]:
    described = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.name in INTERNAL_TOPICS
    )
    brokers = view.image.brokers
    for chunk in chunks(enumerate(topic.partitions)):
        yield
        described.partitions += [
            _partition(index, partition, view.alive, brokers, version) for index, partition in chunk
        ]
    return described


def _partition(
    index: int,
    partition: PartitionImage,
    alive: AbstractSet[int],
    brokers: Mapping[int, BrokerRegistration],
    version: int,
) -> MetadataResponsePartition:
    """Return the description of a partition; version 0 contains only the replicas that are reachable."""
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version < UNREACHABLE_REPLICAS_SINCE:
        replicas, isr = ([broker for broker in those if broker in alive] for those in (replicas, isr))
    if partition.leader not in alive:
        is_there = partition.leader in brokers and version >= LISTENERS_SINCE
        code = ErrorCode.LISTENER_NOT_FOUND if is_there else ErrorCode.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    else:
        code = ErrorCode.NONE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=partition.leader if partition.leader in alive else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[
            broker
            for broker in partition.replicas
            if broker not in alive or not is_online(directory_of(partition, broker), brokers[broker].directories)
        ],
    )


def _describe(
    request: MetadataRequest,
    context: RequestContext,
    asked: Sequence[MetadataRequestTopic] | None,
    denied: AbstractSet[str | None] = frozenset(),
) -> Generator[None, None, MetadataResponse]:
    """Describe the requested topics, or all topics for None; the client may not create the topics in `denied`."""
    services = context.services
    image = services.image
    brokers = _brokers(context)
    view = _View(image, {broker.node_id for broker in brokers})
    response = MetadataResponse(brokers=brokers, cluster_id=services.cluster_id, controller_id=services.node_id)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    found: Iterable[TopicImage | MetadataResponseTopic]
    if asked is None:
        topics = image.topics.values()
        found = (topic for topic in topics if context.allows_topic(topic.name, is_requested=False))
    else:
        found = (_unauthorized(topic) if topic.name in denied else _found(topic, context, view) for topic in asked)
    for chunk in chunks(found):
        yield
        for each in chunk:
            topic = (yield from _topic(each, view, context.version)) if isinstance(each, TopicImage) else each
            if request.include_topic_authorized_operations:
                _add_operations(topic, context)
            response.topics.append(topic)
    return response


def _add_operations(topic: MetadataResponseTopic, context: RequestContext) -> None:
    if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
        topic.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, topic.name)


def _brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    brokers = []
    for broker in context.services.image.brokers.values():
        endpoint = context.services.endpoint(broker.broker_id, context.listener_name)
        if endpoint is not None:
            host, port = endpoint
            brokers.append(MetadataResponseBroker(node_id=broker.broker_id, host=host, port=port, rack=broker.rack))
    return brokers


API = Api(request=MetadataRequest, response=MetadataResponse, handle=handle_metadata)
