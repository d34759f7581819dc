"""DeleteTopics: by name, or from version 6 on also by topic id."""

from __future__ import annotations

from collections import Counter

from kwire.cluster.image import TopicImage
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted = request.topics if context.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    repeats = Counter((topic.name, topic.topic_id) for topic in wanted)
    responses = []
    doomed: list[TopicImage] = []
    for topic in {(topic.name, topic.topic_id): topic for topic in wanted}.values():
        try:
            found = _find(topic, context, is_repeated=repeats[(topic.name, topic.topic_id)] > 1)
            if found in doomed:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic is named by its id as well.")
        except KafkaError as error:
            responses.append(
                DeletableTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=error.code,
                    error_message=error.message or error.code.meaning,
                )
            )
            continue
        doomed.append(found)
        responses.append(DeletableTopicResult(name=found.name, topic_id=found.topic_id))
    await context.services.controller.delete_topics(doomed)
    return DeleteTopicsResponse(responses=responses)


def _find(wanted: DeleteTopicState, context: RequestContext, *, is_repeated: bool) -> TopicImage:
    services = context.services
    if not services.config["delete.topic.enable"]:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST,
            "Topic deletion is disabled.",
        )
    by_id = wanted.topic_id != ZERO_UUID
    if by_id and wanted.name is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if not by_id and wanted.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id." if by_id else "Duplicate topic name.")
    image = services.controller.image
    topic = image.topic_by_id(wanted.topic_id) if by_id else image.topics.get(wanted.name or "")
    if not by_id and not context.allows_topic(wanted.name or ""):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if by_id and not context.allows_topic(topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


API = Api(request=DeleteTopicsRequest, response=DeleteTopicsResponse, handle=handle)
