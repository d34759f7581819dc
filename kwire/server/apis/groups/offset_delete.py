"""OffsetDelete: delete committed offsets of topics that the group does not read (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.chunks import Pieces, slices
from kwire.coordinator.answers import Answer, when_answered, when_many_answered
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.server.apis.groups.commit_answers import joined
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

DELETED_AT_ONCE = 256
"""Partitions whose offsets are deleted in one step of the event loop."""


def handle_offset_delete(
    request: OffsetDeleteRequest, context: RequestContext
) -> Answer[OffsetDeleteResponse] | Pieces[Answer[OffsetDeleteResponse]]:
    if not context.allows_group(request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if sum([len(topic.partitions) or 1 for topic in request.topics]) > DELETED_AT_ONCE:
        return _in_pieces(request, context)
    return _delete(request.group_id, request.topics, context)


def _in_pieces(request: OffsetDeleteRequest, context: RequestContext) -> Pieces[Answer[OffsetDeleteResponse]]:
    """Delete the offsets in steps: the response has a code for each partition."""
    answers = []
    for some in slices(request.topics, lambda topic: topic.partitions, _part, DELETED_AT_ONCE):
        answers.append(_delete(request.group_id, some, context))
        yield
    return (yield from when_many_answered(answers, _joined))


def _part(
    topic: OffsetDeleteRequestTopic, partitions: Sequence[OffsetDeleteRequestPartition]
) -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(name=topic.name, partitions=list(partitions))


def _joined(parts: list[OffsetDeleteResponse]) -> Pieces[OffsetDeleteResponse]:
    """Return one response of several; an error of one part is that of the group, and has no topics."""
    code = next((part.error_code for part in parts if part.error_code), ErrorCode.NONE)
    if code:
        return OffsetDeleteResponse(error_code=code)
    topics = yield from joined(part.topics for part in parts)
    return OffsetDeleteResponse(topics=topics)


def _delete(
    group_id: str, topics: Iterable[OffsetDeleteRequestTopic], context: RequestContext
) -> Answer[OffsetDeleteResponse]:
    accepted: list[OffsetDeleteRequestTopic] = []
    rejected: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in topics:
        known, unknown, code = _sorted(topic, context)
        if unknown:
            rejected[topic.name] = OffsetDeleteResponseTopic(name=topic.name, partitions=_answers(unknown, code))
        if known or not unknown:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
    answer = context.services.groups.delete_offsets(group_id, accepted)
    return when_answered(answer, lambda response: _merged(response, rejected))


def _sorted(
    topic: OffsetDeleteRequestTopic, context: RequestContext
) -> tuple[list[OffsetDeleteRequestPartition], list[OffsetDeleteRequestPartition], ErrorCode]:
    """Return (accepted partitions, rejected partitions, error code of the rejected ones)."""
    if not context.allows_topic(topic.name):
        return [], topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    image = context.services.image.topics.get(topic.name)
    count = 0 if image is None else len(image.partitions)
    known = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    unknown = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
    return known, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answers(
    partitions: Iterable[OffsetDeleteRequestPartition], code: ErrorCode
) -> list[OffsetDeleteResponsePartition]:
    return [
        OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
        for partition in partitions
    ]


def _merged(response: OffsetDeleteResponse, rejected: dict[str, OffsetDeleteResponseTopic]) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE:
        return response
    for topic in response.topics:
        if topic.name in rejected:
            topic.partitions = [*topic.partitions, *rejected.pop(topic.name).partitions]
    response.topics = [*response.topics, *rejected.values()]
    return response


API = Api(request=OffsetDeleteRequest, response=OffsetDeleteResponse, handle=handle_offset_delete)
