"""AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import CHUNK, chunks, turn
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.protocol.primitives import ZERO_UUID
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Failed = dict[tuple[UUID, int], KafkaError]


async def handle_alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(request.group_id):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        code = ErrorCode.INVALID_GROUP_ID
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=code.meaning)
    topics = {topic.topic_name: topic for topic in request.topics}  # a topic that is named again counts once
    offsets: dict[UUID, dict[int, int]] = {}
    for topic in topics.values():
        image = context.services.image.topics.get(topic.topic_name)
        if image is not None and context.allows_topic(topic.topic_name):
            starts = offsets[image.topic_id] = {}
            count = len(image.partitions)
            for some in chunks(topic.partitions):
                starts |= {
                    each.partition_index: each.start_offset for each in some if 0 <= each.partition_index < count
                }
                await turn()
        else:
            await turn()
    try:
        failed = await context.services.groups.share.offsets.alter(request.group_id, offsets)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    responses = [await _answered(topic, context, offsets, failed) for topic in topics.values()]
    return AlterShareGroupOffsetsResponse(responses=responses)


async def _answered(
    topic: AlterShareGroupOffsetsRequestTopic,
    context: RequestContext,
    offsets: dict[UUID, dict[int, int]],
    failed: Failed,
) -> AlterShareGroupOffsetsResponseTopic:
    is_allowed = context.allows_topic(topic.topic_name)
    image = context.services.image.topics.get(topic.topic_name) if is_allowed else None
    topic_id = ZERO_UUID if image is None else image.topic_id
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []
    for each in topic.partitions:
        if len(partitions) % CHUNK == 0:
            await turn()
        index = each.partition_index
        answered = AlterShareGroupOffsetsResponsePartition(partition_index=index)
        if index not in offsets.get(topic_id, ()):
            answered.error_code, answered.error_message = missing, missing.meaning
        elif (topic_id, index) in failed:
            error = failed[topic_id, index]
            answered.error_code, answered.error_message = error.code, error.message or error.code.meaning
        partitions.append(answered)
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions)


API = Api(
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
    handle=handle_alter_share_group_offsets,
    elements_of=lambda response: sum(len(topic.partitions) + 1 for topic in response.responses),
)
