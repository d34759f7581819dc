"""Metadata: brokers, topics and who leads their partitions. Asking for a topic may create it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kwire.cluster.controller.view import directory_of
from kwire.cluster.directory_ids import is_online
from kwire.cluster.image import BrokerRegistration, PartitionImage, TopicImage
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
from kwire.server.authorization import ResourceType
from kwire.server.authorized_operations import authorized_operations
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

OWN_TOPICS = INTERNAL_TOPICS | {METADATA_TOPIC}
"""Made by the broker with settings of their own, or not at all."""
UNREACHABLE_REPLICAS_SINCE = 1
"""From this version on replicas are named that cannot be reached; before, they were an error."""
LISTENERS_SINCE = 6
"""From this version on clients know that a leader may have no listener of the name by which they came."""
IDS_OR_NAMES_SINCE = 12
"""Versions 10 and 11 have a field for ids, in which nothing may stand."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    if wants_all:
        return _answer(request, context, _all_topics(context))
    if context.version < IDS_OR_NAMES_SINCE and any(_needs_ids(topic) for topic in request.topics or ()):
        return _refused(request)
    if any(topic.name is None for topic in _asked(request) if topic.topic_id == ZERO_UUID):
        return _refused(request)
    missing = _to_create(request, context)
    if missing:  # the client asks again, as it does of Kafka
        context.services.topic_creator.create_soon(missing)
    return _answer(request, context, [_named(topic, context) for topic in _asked(request)])


def _needs_ids(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _refused(request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


def _to_create(request: MetadataRequest, context: RequestContext) -> list[str]:
    services = context.services
    allowed = request.allow_auto_topic_creation or context.version < 4
    if not (allowed and services.config["auto.create.topics.enable"]):
        return []
    names = dict.fromkeys(
        topic.name for topic in _asked(request) if topic.name is not None and topic.topic_id == ZERO_UUID
    )
    return [
        name
        for name in names
        if name not in services.image.topics
        and (name == GROUP_OFFSETS_TOPIC or name not in OWN_TOPICS)
        and not why_invalid(name)
        and context.allows_topic(name)
        and context.allows_cluster()
    ]


def _all_topics(context: RequestContext) -> list[MetadataResponseTopic]:
    return [
        _topic(topic, context) for name, topic in context.services.image.topics.items() if context.allows_topic(name)
    ]


def _asked(request: MetadataRequest) -> list[MetadataRequestTopic]:
    """What is named, each once; where there are ids, what is named without one is passed over."""
    by_id = {topic.topic_id: topic for topic in request.topics or () if topic.topic_id != ZERO_UUID}
    return list(by_id.values()) or list({topic.name: topic for topic in request.topics or ()}.values())


def _named(asked: MetadataRequestTopic, context: RequestContext) -> MetadataResponseTopic:
    image = context.services.image
    name = asked.name
    if asked.topic_id != ZERO_UUID:
        known = image.topic_by_id(asked.topic_id)
        if known is None or not context.allows_topic(known.name):
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id)
        return _topic(known, context)
    assert name is not None, "a topic with neither name nor id is refused before"
    if not context.allows_topic(name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(topic, context)
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if why_invalid(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(topic: TopicImage, context: RequestContext) -> MetadataResponseTopic:
    services = context.services
    brokers = services.image.brokers
    alive = {broker for broker in brokers if services.endpoint(broker, context.listener_name) is not None}
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, partition, alive, brokers, context.version)
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _partition(
    index: int,
    partition: PartitionImage,
    alive: AbstractSet[int],
    brokers: Mapping[int, BrokerRegistration],
    version: int,
) -> MetadataResponsePartition:
    """Return how a partition stands; version 0 names only the replicas that can be reached."""
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


def _answer(request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    services = context.services
    response = MetadataResponse(
        brokers=_brokers(context),
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        topics=topics,
    )
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
                topic.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, topic.name)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(context, ResourceType.CLUSTER)
    return response


def _brokers(context: RequestContext) -> list[MetadataResponseBroker]:
    brokers = []
    for broker in context.services.image.brokers.values():
        endpoint = context.services.endpoint(broker.broker_id, context.listener_name)
        if endpoint is not None:
            host, port = endpoint
            brokers.append(MetadataResponseBroker(node_id=broker.broker_id, host=host, port=port, rack=broker.rack))
    return brokers


API = Api(request=MetadataRequest, response=MetadataResponse, handle=handle)
