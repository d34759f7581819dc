"""OffsetFetch: the offsets that groups have committed.

Up to version 7 the request names one group and its answer has the group's fields at the top; inside, both are one
group of the newer form.
"""

from __future__ import annotations

from kwire.coordinator.answers import Answer, when_all_answered, when_answered
from kwire.coordinator.group.committing import no_offset
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

GROUP_ERROR_SINCE = 2
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


def handle(request: OffsetFetchRequest, context: RequestContext) -> Answer[OffsetFetchResponse]:
    if context.version < MANY_GROUPS_SINCE:
        only = _as_group(request)
        answer = _fetch(only, request, context)
        return when_answered(answer, lambda group: _old_response(only, group, context.version))
    wanted = {group.group_id: group for group in request.groups}  # what is named again is answered once
    answers = [_fetch(group, request, context) for group in wanted.values()]
    return when_all_answered(answers, lambda groups: OffsetFetchResponse(groups=groups))


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
) -> Answer[OffsetFetchResponseGroup]:
    if not context.allows_group(group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = context.services.groups
    if group.topics is None:
        answer = groups.fetch_offsets(group, require_stable=request.require_stable)
        return when_answered(answer, lambda found: _visible(found, context))
    refused = _take_out_refused(group, context)
    answer = groups.fetch_offsets(group, require_stable=request.require_stable)
    if not refused:
        return answer
    return when_answered(answer, lambda found: _with_refused(found, refused))


def _take_out_refused(group: OffsetFetchRequestGroup, context: RequestContext) -> list[OffsetFetchResponseTopics]:
    """Answers for topics that are unknown by their id, or that the client may not see."""
    refused: list[OffsetFetchResponseTopics] = []
    kept: list[OffsetFetchRequestTopics] = []
    for topic in group.topics or ():
        if context.version >= TOPIC_IDS_SINCE:
            topic.name = context.services.image.topic_names.get(topic.topic_id, "")
        if context.version >= TOPIC_IDS_SINCE and not topic.name:
            refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not context.allows_topic(topic.name):
            refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            kept.append(topic)
    group.topics = kept
    return refused


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    partitions = [no_offset(index, code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _with_refused(
    group: OffsetFetchResponseGroup, refused: list[OffsetFetchResponseTopics]
) -> OffsetFetchResponseGroup:
    if group.error_code == ErrorCode.NONE:
        group.topics = [*group.topics, *refused]
    return group


def _visible(group: OffsetFetchResponseGroup, context: RequestContext) -> OffsetFetchResponseGroup:
    """What may be shown of all offsets: topics that the client may see and, by id, that exist."""
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
        group.topics = [_refused(topic, ErrorCode(group.error_code)) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


API = Api(request=OffsetFetchRequest, response=OffsetFetchResponse, handle=handle)
