"""DeleteShareGroupOffsets: delete the offsets of topics of an empty share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kwire.chunks import CHUNK, chunks, turn
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


async def handle_delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(request.group_id):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        code = ErrorCode.INVALID_GROUP_ID
        return DeleteShareGroupOffsetsResponse(error_code=code, error_message=code.meaning)
    topics = context.services.image.topics
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    ids: dict[str, UUID] = {}
    for some in chunks(names):
        ids |= {name: topics[name].topic_id for name in some if name in topics and context.allows_topic(name)}
        await turn()
    try:
        failed = await context.services.groups.share.offsets.delete(request.group_id, list(ids.values()))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
    for name in names:
        if len(responses) % CHUNK == 0:
            await turn()
        answered = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
        if name in ids:
            answered.topic_id = ids[name]
            if failure := failed.get(ids[name]):
                answered.error_code, answered.error_message = failure.code, failure.message or failure.code.meaning
        else:
            is_allowed = context.allows_topic(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answered.error_code, answered.error_message = code, code.meaning
        responses.append(answered)
    return DeleteShareGroupOffsetsResponse(responses=responses)


API = Api(
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
    handle=handle_delete_share_group_offsets,
    elements_of=lambda response: len(response.responses),
)
