"""OffsetCommit: store the committed offsets of a group, for the topics and partitions that exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kwire.chunks import Pieces, slices
from kwire.coordinator.answers import Answer, when_answered, when_many_answered
from kwire.coordinator.group.rejected_commits import rejected_commit
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from kwire.server.apis.groups.commit_answers import joined, merged, split
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

TOPIC_IDS_SINCE = 10
COMMITTED_AT_ONCE = 256
"""Partitions in one batch. The offsets of one commit are stored together, in ten milliseconds at most."""


def handle_offset_commit(
    request: OffsetCommitRequest, context: RequestContext
) -> Answer[OffsetCommitResponse] | Pieces[Answer[OffsetCommitResponse]]:
    if sum(len(topic.partitions) or 1 for topic in request.topics) > COMMITTED_AT_ONCE:
        return _in_pieces(request, context)
    return when_answered(_commit(request, request.topics, context), lambda topics: OffsetCommitResponse(topics=topics))


def _in_pieces(request: OffsetCommitRequest, context: RequestContext) -> Pieces[Answer[OffsetCommitResponse]]:
    """Commit each slice separately: the response has a code for each partition."""
    answers = []
    for some in slices(request.topics, lambda topic: topic.partitions, _part, COMMITTED_AT_ONCE):
        yield
        answers.append(_commit(request, some, context))
    return (yield from when_many_answered(answers, _joined))


def _joined(parts: list[list[OffsetCommitResponseTopic]]) -> Pieces[OffsetCommitResponse]:
    topics = yield from joined(parts)
    return OffsetCommitResponse(topics=topics)


def _part(topic: OffsetCommitRequestTopic, partitions: Sequence[Any]) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=list(partitions))


def _commit(
    request: OffsetCommitRequest, topics: Iterable[OffsetCommitRequestTopic], context: RequestContext
) -> Answer[list[OffsetCommitResponseTopic]]:
    if not context.allows_group(request.group_id):
        return rejected_commit(topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    accepted: list[OffsetCommitRequestTopic] = []
    rejected: list[OffsetCommitResponseTopic] = []
    for topic in topics:
        if context.version >= TOPIC_IDS_SINCE:
            topic.name = context.services.image.topic_names.get(topic.topic_id, "")
        _sort(topic, context, accepted, rejected)
    if not accepted:
        return rejected
    answer = context.services.groups.commit_offsets(request, accepted, version=context.version)
    return when_answered(answer, lambda committed: merged(rejected, committed))


def _sort(
    topic: OffsetCommitRequestTopic,
    context: RequestContext,
    accepted: list[OffsetCommitRequestTopic],
    rejected: list[OffsetCommitResponseTopic],
) -> None:
    """Add the topic, or each of its partitions, to the accepted or to the rejected ones."""
    if not topic.name and context.version >= TOPIC_IDS_SINCE:
        rejected += rejected_commit([topic], ErrorCode.UNKNOWN_TOPIC_ID)
        return
    if not context.allows_topic(topic.name):
        rejected += rejected_commit([topic], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    image = context.services.image.topics.get(topic.name)
    known, unknown = split(topic.partitions, image)
    if unknown or not known:
        rest = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=unknown)
        rejected += rejected_commit([rest], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions = known
    if known and image is not None:
        topic.topic_id = image.topic_id  # stored with the offset, whatever the request's version
        accepted.append(topic)


API = Api(request=OffsetCommitRequest, response=OffsetCommitResponse, handle=handle_offset_commit)
