"""Metadata: brokers, topics and who leads their partitions. Asking for a topic may create it."""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.cluster.image import TopicImage
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, METADATA_TOPIC, why_invalid
from kwire.protocol.error_codes import ErrorCode, KafkaError
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
IDS_OR_NAMES_SINCE = 12
"""Versions 10 and 11 have a field for ids, in which nothing may stand."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Awaitable[MetadataResponse]:
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    if wants_all:
        return _answer(request, context, _all_topics(context))
    if context.version < IDS_OR_NAMES_SINCE and any(_needs_ids(topic) for topic in request.topics or ()):
        return _refused(request)
    if any(topic.name is None for topic in _asked(request) if topic.topic_id == ZERO_UUID):
        return _refused(request)
    missing = _to_create(request, context)
    if missing:
        return _create_and_answer(request, context, missing)
    return _answer(request, context, _named_topics(request, context, {}))


async def _create_and_answer(request: MetadataRequest, context: RequestContext, missing: list[str]) -> MetadataResponse:
    errors = await context.services.topic_creator.create(missing)
    return _answer(request, context, _named_topics(request, context, errors))


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


def _named_topics(
    request: MetadataRequest, context: RequestContext, errors: dict[str, KafkaError]
) -> list[MetadataResponseTopic]:
    return [_named(topic, context, errors) for topic in _asked(request)]


def _asked(request: MetadataRequest) -> list[MetadataRequestTopic]:
    """What is named, each once; where there are ids, what is named without one is passed over."""
    by_id = {topic.topic_id: topic for topic in request.topics or () if topic.topic_id != ZERO_UUID}
    return list(by_id.values()) or list({topic.name: topic for topic in request.topics or ()}.values())


def _named(
    asked: MetadataRequestTopic, context: RequestContext, errors: dict[str, KafkaError]
) -> MetadataResponseTopic:
    image = context.services.image
    name = asked.name
    if asked.topic_id != ZERO_UUID:
        known = image.topic_by_id(asked.topic_id)
        if known is None or not context.allows_topic(known.name):
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponseTopic(error_code=code, name=None, topic_id=asked.topic_id)
        return _topic(known, context)
    if name is None:
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=None)
    if not context.allows_topic(name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(topic, context)
    if why_invalid(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        code = errors[name].code if name in errors else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(topic: TopicImage, context: RequestContext) -> MetadataResponseTopic:
    services = context.services
    listener = context.listener_name
    alive = {broker for broker in services.image.brokers if services.endpoint(broker, listener) is not None}
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if partition.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader if partition.leader in alive else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=[broker for broker in partition.replicas if broker not in alive],
            )
            for index, partition in enumerate(topic.partitions)
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
