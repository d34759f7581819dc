"""DeleteTopics: by name, or from version 6 on also by topic id."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kwire.chunks import CHUNK, chunks, turn
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
from kwire.server.services import of_controller

STRICT_QUOTA_SINCE = 5
_TWICE = KafkaError(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    wanted = request.topics if context.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    repeats = Counter((topic.name, topic.topic_id) for topic in wanted)
    responses = []
    found: list[tuple[DeleteTopicState, TopicImage]] = []
    for some in chunks({(topic.name, topic.topic_id): topic for topic in wanted}.values()):
        for topic in some:
            try:
                is_repeated = repeats[(topic.name, topic.topic_id)] > 1
                found.append((topic, _find(topic, context, is_repeated=is_repeated)))
            except KafkaError as error:
                responses.append(_refused(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id), error))
        if len(some) == CHUNK:
            await turn()
    doomed, twice = _sort(
        found, {topic_id for (name, topic_id), count in repeats.items() if name is None and count > 1}
    )
    responses += [_refused(DeletableTopicResult(name=each.name, topic_id=each.topic_id), _TWICE) for each in twice]
    accepted = [DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in doomed]
    responses += accepted
    services = of_controller(context)
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    outcomes = await services.controller.delete_topics(doomed, count=quota.record)
    for result, outcome in zip(accepted, outcomes, strict=True):
        if outcome is not None:
            _refused(result, outcome)
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=responses)


def _sort(
    found: list[tuple[DeleteTopicState, TopicImage]], repeated_ids: set[UUID]
) -> tuple[list[TopicImage], list[TopicImage]]:
    """The topics to delete, and those that are named by their id as well: these are left alone."""
    by_id = repeated_ids | {topic.topic_id for asked, topic in found if asked.name is None}
    twice = {topic.topic_id: topic for asked, topic in found if asked.name is not None and topic.topic_id in by_id}
    return [topic for _, topic in found if topic.topic_id not in twice], list(twice.values())


def _refused(result: DeletableTopicResult, error: KafkaError) -> DeletableTopicResult:
    result.error_code = error.code
    result.error_message = error.message
    if error.message is None and error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        result.error_message = error.code.meaning
    return result


def _find(wanted: DeleteTopicState, context: RequestContext, *, is_repeated: bool) -> TopicImage:
    services = of_controller(context)
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


def refuse(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[_refused(DeletableTopicResult(name=each.name, topic_id=each.topic_id), error) for each in wanted]
    )


API = Api(request=DeleteTopicsRequest, response=DeleteTopicsResponse, handle=handle)
