"""DescribeShareGroupOffsets: the start offsets of share groups in their partitions (KIP-932).

1  number of records that are not delivered yet (KIP-1226)
"""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: GroupId = field("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field("0+", nullable="0+")
    """None describes all partitions."""


@message(key=90, kind="request", versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field("0+")


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int32 = field("0+")
    start_offset: int64 = field("0+")
    leader_epoch: int32 = field("0+")
    lag: int64 = field("1+", default=-1, ignorable=True)
    """In records; -1 if unknown."""
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: TopicName = field("0+")
    topic_id: uuid = field("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field("0+")


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: GroupId = field("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@message(key=90, kind="response", versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int32 = field("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field("0+")
