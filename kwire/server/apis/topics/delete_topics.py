"""DeleteTopics: delete topics by name, or from version 6 on also by topic id."""

from __future__ import annotations

from itertools import chain
from uuid import UUID

from kwire.chunks import CHUNK, Pieces, chunks, in_turns, mapped, turn
from kwire.cluster.metadata.image import TopicImage
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.repeats import repeated
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext
from kwire.server.settings.requests import RequestSettings

STRICT_QUOTA_SINCE = 5
_TWICE = KafkaError(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")


async def handle_delete_topics(request: DeleteTopicsRequest, context: ControllerContext) -> DeleteTopicsResponse:
    requested = await in_turns(_requested(request))
    repeats = await in_turns(repeated((topic.name, topic.topic_id) for topic in requested))
    rejected: dict[tuple[str | None, UUID], DeletableTopicResult] = {}
    found: list[tuple[DeleteTopicState, TopicImage]] = []
    for some in chunks(requested):
        for topic in some:
            key = (topic.name, topic.topic_id)
            try:
                found.append((topic, _find(topic, context, is_repeated=key in repeats)))
            except KafkaError as error:
                name = topic.name if topic.name is not None else _shown_name(topic, error, context)
                rejected[key] = _result(name, topic.topic_id, error)
        if len(some) == CHUNK:
            await turn()
    by_id = {topic_id for name, topic_id in repeats if name is None}
    doomed, twice = await in_turns(_sort(found, by_id))
    services = context.services
    quota = services.quotas.mutations(context, strict_since=STRICT_QUOTA_SINCE)
    outcomes = await services.controller.delete_topics(doomed, count=quota.record)
    decided = chain(((topic, _TWICE) for topic in twice), zip(doomed, outcomes, strict=True))
    results = await in_turns(mapped(decided, lambda each: _result(each[0].name, each[0].topic_id, each[1])))
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=[*rejected.values(), *results])


def _requested(request: DeleteTopicsRequest) -> Pieces[list[DeleteTopicState]]:
    """Return the topics in the form of newer versions; a request has either topics or names."""
    named = yield from mapped(request.topic_names, lambda name: DeleteTopicState(name=name))
    return request.topics or named


def _sort(
    found: list[tuple[DeleteTopicState, TopicImage]], by_id: set[UUID]
) -> Pieces[tuple[list[TopicImage], list[TopicImage]]]:
    """Return the topics to delete, and those that are named by their id as well, which are not deleted.

    `by_id` contains the ids that are named more than once.
    """
    twice: dict[UUID, TopicImage] = {}
    doomed: list[TopicImage] = []
    for some in chunks(found):
        by_id |= {topic.topic_id for asked, topic in some if asked.name is None}
        if len(some) == CHUNK:
            yield
    for some in chunks(found):
        twice |= {topic.topic_id: topic for asked, topic in some if asked.name is not None and topic.topic_id in by_id}
        if len(some) == CHUNK:
            yield
    for some in chunks(found):
        doomed += [topic for _, topic in some if topic.topic_id not in twice]
        if len(some) == CHUNK:
            yield
    return doomed, list(twice.values())


def _result(name: str | None, topic_id: UUID, error: KafkaError | None) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    if error is not None:
        result.error_code = error.code
        result.error_message = error.message
        if error.message is None and error.code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            result.error_message = error.code.meaning
    return result


def _find(requested: DeleteTopicState, context: ControllerContext, *, is_repeated: bool) -> TopicImage:
    services = context.services
    if not services.settings.of(RequestSettings).deletes_topics:
        raise KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST,
            "Topic deletion is disabled.",
        )
    by_id = requested.topic_id != ZERO_UUID
    if by_id and requested.name is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if not by_id and requested.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if is_repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id." if by_id else "Duplicate topic name.")
    image = services.controller.image
    topic = image.topic_by_id(requested.topic_id) if by_id else image.topics.get(requested.name or "")
    may_delete_all = context.allows_cluster(is_requested=False)
    if not (by_id or may_delete_all or _may_describe(requested.name or "", context)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not (may_delete_all or context.allows_topic(topic.name)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


def _shown_name(requested: DeleteTopicState, error: KafkaError, context: ControllerContext) -> str | None:
    """Return the name of a topic that is named by its id: only for a client that may describe it, but not delete it."""
    topic = context.services.controller.image.topic_by_id(requested.topic_id)
    if topic is None or error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return None
    return topic.name if _may_describe(topic.name, context) else None


def _may_describe(name: str, context: ControllerContext) -> bool:
    return context.allows_to(Operation.DESCRIBE, ResourceType.TOPIC, name, is_requested=False)


def reject(request: DeleteTopicsRequest, error: KafkaError) -> Pieces[DeleteTopicsResponse]:
    requested = yield from _requested(request)
    responses = yield from mapped(requested, lambda each: _result(each.name, each.topic_id, error))
    return DeleteTopicsResponse(responses=responses)


API = Api(request=DeleteTopicsRequest, response=DeleteTopicsResponse, handle=handle_delete_topics)
