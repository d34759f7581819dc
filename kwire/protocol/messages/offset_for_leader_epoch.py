"""OffsetForLeaderEpoch: end offset of a leader epoch, with which followers and consumers detect truncation (KIP-101).

2  current leader epoch (KIP-320), throttle time
3  replica id, -2 for a consumer that may read above the high watermark
4  flexible
"""

from kwire.protocol.primitives import BrokerId, TopicName, int16, int32, int64
from kwire.protocol.schema import field, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: int32 = field("0+")


@struct
class OffsetForLeaderTopic:
    topic: TopicName = field("0+")
    partitions: list[OffsetForLeaderPartition] = field("0+")


@message(key=23, kind="request", versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: BrokerId = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field("0+")


@struct
class OffsetForLeaderEpochEpochEndOffset:
    error_code: int16 = field("0+")
    partition: int32 = field("0+")
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    end_offset: int64 = field("0+", default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: TopicName = field("0+")
    partitions: list[OffsetForLeaderEpochEpochEndOffset] = field("0+")


@message(key=23, kind="response", versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field("0+")
