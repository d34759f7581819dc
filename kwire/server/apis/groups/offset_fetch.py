"""OffsetFetch: return the committed offsets of groups.

Up to version 7 the request names one group, and its response has the group's fields at the top level. The code handles
both as one group of the newer form.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

from kwire.chunks import CHUNK, Pieces, at_once, is_many, mapped, slices
from kwire.coordinator.answers import Answer, when_all_answered, when_answered, when_many_answered
from kwire.coordinator.group.committing import no_offset
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.repeats import once_each
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

GROUP_ERROR_SINCE = 2
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


def handle_offset_fetch(
    request: OffsetFetchRequest, context: RequestContext
) -> Answer[OffsetFetchResponse] | Pieces[Answer[OffsetFetchResponse]]:
    if context.version < MANY_GROUPS_SINCE:
        groups = [_as_group(request)]
    else:
        groups = list({group.group_id: group for group in request.groups}.values())  # named again, answered once
    answer = _answer(groups, request, context)
    return answer if is_many(size for group in groups for size in _sizes(group)) else at_once(answer)


def _sizes(group: OffsetFetchRequestGroup) -> Iterator[int]:
    """Yield the number of requested partitions of each topic; more than a chunk if all are requested.

    The number of all partitions is not known here.
    """
    if group.topics is None:
        yield CHUNK + 1
    for topic in group.topics or ():
        yield len(topic.partition_indexes)


def _answer(
    groups: list[OffsetFetchRequestGroup], request: OffsetFetchRequest, context: RequestContext
) -> Pieces[Answer[OffsetFetchResponse]]:
    answers: list[Answer[OffsetFetchResponseGroup]] = []
    for group in groups:
        answer = yield from _fetch(group, request, context)
        answers.append(answer)
    if context.version < MANY_GROUPS_SINCE:
        return when_answered(answers[0], lambda group: _old_response(groups[0], group, context.version))
    return (yield from when_many_answered(answers, lambda fetched: OffsetFetchResponse(groups=fetched)))


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )


def _fetch(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext
) -> Pieces[Answer[OffsetFetchResponseGroup]]:
    """Read the offsets of a few partitions at a time; those of one step are consistent."""
    group_id = group.group_id
    groups = context.services.groups
    if not context.allows_group(group_id):
        return OffsetFetchResponseGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_all = group.topics is None
    try:
        topics = groups.committed_partitions(group) if group.topics is None else (yield from _once(group.topics))
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=error.code)
    answers: list[Answer[OffsetFetchResponseGroup]] = []
    rejected: list[OffsetFetchResponseTopics] = []
    for some in slices(topics, lambda topic: topic.partition_indexes, _part, CHUNK):
        yield
        part = OffsetFetchRequestGroup(
            group_id=group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=some
        )
        if not is_all:
            _join(rejected, _take_out_rejected(part, context))
        answer = groups.fetch_offsets(part, require_stable=request.require_stable)
        if is_all:
            answer = when_answered(answer, lambda found: _visible(found, context))
        answers.append(answer)
    return when_all_answered(answers, lambda parts: _whole(parts, rejected))


def _once(topics: Sequence[OffsetFetchRequestTopics]) -> Pieces[list[OffsetFetchRequestTopics]]:
    """Return each partition once: a repeated index of four bytes would request kilobytes of metadata again."""
    asked = yield from once_each(((topic.name, topic.topic_id), topic.partition_indexes) for topic in topics)
    return (yield from mapped(asked.items(), _asked))


def _asked(asked: tuple[tuple[str, uuid.UUID], dict[int, None]]) -> OffsetFetchRequestTopics:
    (name, topic_id), indexes = asked
    return OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(indexes))


def _part(topic: OffsetFetchRequestTopics, indexes: Sequence[int]) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=list(indexes))


def _whole(
    parts: list[OffsetFetchResponseGroup], rejected: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    whole = parts[0]
    for part in parts[1:]:
        if part.error_code != ErrorCode.NONE:
            return part
        _join(whole.topics, part.topics)
    if whole.error_code == ErrorCode.NONE:
        whole.topics += rejected
    return whole


def _join(topics: list[OffsetFetchResponseTopics], more: list[OffsetFetchResponseTopics]) -> None:
    """Add the topics of the next slice, which may begin in the middle of the last one."""
    if topics and more and (topics[-1].name, topics[-1].topic_id) == (more[0].name, more[0].topic_id):
        topics[-1].partitions += more[0].partitions
        more = more[1:]
    topics += more


def _take_out_rejected(group: OffsetFetchRequestGroup, context: RequestContext) -> list[OffsetFetchResponseTopics]:
    """Remove and return topics with an unknown id, or that the client is not authorized for."""
    rejected: list[OffsetFetchResponseTopics] = []
    kept: list[OffsetFetchRequestTopics] = []
    for topic in group.topics or ():
        if context.version >= TOPIC_IDS_SINCE:
            topic.name = context.services.image.topic_names.get(topic.topic_id, "")
        if context.version >= TOPIC_IDS_SINCE and not topic.name:
            rejected.append(_rejected(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not context.allows_topic(topic.name):
            rejected.append(_rejected(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            kept.append(topic)
    group.topics = kept
    return rejected


def _rejected(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    partitions = [no_offset(index, code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _visible(group: OffsetFetchResponseGroup, context: RequestContext) -> OffsetFetchResponseGroup:
    """Remove topics that the client is not authorized for, or, with ids, that do not exist."""
    shown = []
    for topic in group.topics:
        if not context.allows_topic(topic.name):
            continue
        if context.version >= TOPIC_IDS_SINCE:
            image = context.services.image.topics.get(topic.name)
            topic.topic_id = ZERO_UUID if image is None else image.topic_id
            if image is None:
                continue
        shown.append(topic)
    group.topics = shown
    return group


def _old_response(asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    if group.error_code != ErrorCode.NONE and version < GROUP_ERROR_SINCE:
        group.topics = [_rejected(topic, ErrorCode(group.error_code)) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            # The partitions of both forms have the same fields; copying many would take long.
            OffsetFetchResponseTopic(name=topic.name, partitions=cast("Any", topic.partitions))
            for topic in group.topics
        ],
    )


API = Api(request=OffsetFetchRequest, response=OffsetFetchResponse, handle=handle_offset_fetch)
