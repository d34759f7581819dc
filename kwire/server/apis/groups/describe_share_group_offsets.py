"""DescribeShareGroupOffsets: return the start offsets and the lag of share groups (KIP-932, KIP-1226)."""

from __future__ import annotations

from kwire.chunks import chunks, in_turns, mapped, turn
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.coordinator.share_group_offsets import PartitionOffset
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


async def handle_describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    groups = []
    for some in chunks(request.groups):
        groups += [await _group(group, context) for group in some]
        await turn()
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _group(
    group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    code = _rejection(group.group_id, context)
    if code is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=code)
    try:
        offsets = context.services.groups.share.offsets
        if group.topics is not None:
            topics = group.topics
        else:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
                for name, partitions in offsets.initialized_partitions(group.group_id).items()
                if context.allows_topic(name, is_requested=False)
            ]
        described = []
        for some in chunks(topics):
            described += [await _topic(group.group_id, topic, context) for topic in some]
            await turn()
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id, error_code=error.code, error_message=error.message
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=described)


def _rejection(group_id: str, context: RequestContext) -> ErrorCode:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE if context.allows_group(group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


async def _topic(
    group_id: str, topic: DescribeShareGroupOffsetsRequestTopic, context: RequestContext
) -> DescribeShareGroupOffsetsResponseTopic:
    if not context.allows_topic(topic.topic_name):
        denied = PartitionOffset(error=KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return await _described(topic, context, [denied] * len(topic.partitions))
    offsets = context.services.groups.share.offsets
    return await _described(topic, context, await offsets.describe(group_id, topic.topic_name, topic.partitions))


async def _described(
    topic: DescribeShareGroupOffsetsRequestTopic, context: RequestContext, offsets: list[PartitionOffset]
) -> DescribeShareGroupOffsetsResponseTopic:
    image = context.services.image.topics.get(topic.topic_name) if context.allows_topic(topic.topic_name) else None
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID if image is None else image.topic_id,
        partitions=await in_turns(mapped(zip(topic.partitions, offsets, strict=True), _partition)),
    )


def _partition(described: tuple[int, PartitionOffset]) -> DescribeShareGroupOffsetsResponsePartition:
    index, offset = described
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=offset.start_offset,
        leader_epoch=offset.leader_epoch,
        lag=offset.lag,
        error_code=ErrorCode.NONE if offset.error is None else offset.error.code,
        error_message=None if offset.error is None else offset.error.message,
    )


API = Api(
    request=DescribeShareGroupOffsetsRequest,
    response=DescribeShareGroupOffsetsResponse,
    handle=handle_describe_share_group_offsets,
    elements_of=lambda response: sum(len(topic.partitions) + 1 for group in response.groups for topic in group.topics),
)
