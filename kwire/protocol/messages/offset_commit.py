"""OffsetCommit: store the committed offsets of a group.

2  retention time
3  throttle time
5  no retention time: only the broker's setting applies (KIP-211)
6  leader epoch (KIP-320)
7  group.instance.id (KIP-345)
8  flexible
9  members of KIP-848 groups; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be returned
10  topic ids replace names (KIP-848)
"""

from kwire.protocol.primitives import GroupId, TopicName, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: string | None = field("0+", nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: TopicName = field("0-9", ignorable=True)
    topic_id: uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field("0+")


@message(key=8, kind="request", versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: GroupId = field("0+")
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("1+", ignorable=True)
    group_instance_id: string | None = field("7+", nullable="7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field("0+")


@struct
class OffsetCommitResponsePartition:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


@struct
class OffsetCommitResponseTopic:
    name: TopicName = field("0-9", ignorable=True)
    topic_id: uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field("0+")


@message(key=8, kind="response", versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field("0+")
