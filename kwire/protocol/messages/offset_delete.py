"""OffsetDelete: delete committed offsets of topics to which the group does not subscribe (KIP-496). Never flexible."""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32
from kwire.protocol.schema import field, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int32 = field("0+")


@struct
class OffsetDeleteRequestTopic:
    name: TopicName = field("0+")
    partitions: list[OffsetDeleteRequestPartition] = field("0+")


@message(key=47, kind="request", versions="0")
class OffsetDeleteRequest:
    group_id: GroupId = field("0+")
    topics: list[OffsetDeleteRequestTopic] = field("0+")


@struct
class OffsetDeleteResponsePartition:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class OffsetDeleteResponseTopic:
    name: TopicName = field("0+")
    partitions: list[OffsetDeleteResponsePartition] = field("0+")


@message(key=47, kind="response", versions="0")
class OffsetDeleteResponse:
    error_code: int16 = field("0+")
    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field("0+")
