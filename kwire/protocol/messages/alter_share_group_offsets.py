"""AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932)."""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int32 = field("0+")
    start_offset: int64 = field("0+")


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: TopicName = field("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field("0+")


@message(key=91, kind="request", versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: GroupId = field("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field("0+")


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: TopicName = field("0+")
    topic_id: uuid = field("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field("0+")


@message(key=91, kind="response", versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field("0+")
