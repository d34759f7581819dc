"""DeleteShareGroupOffsets: remove a share group's offsets in topics (KIP-932)."""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: TopicName = field("0+")


@message(key=92, kind="request", versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: GroupId = field("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field("0+")


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: TopicName = field("0+")
    topic_id: uuid = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@message(key=92, kind="response", versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field("0+")
