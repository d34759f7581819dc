"""OffsetFetch: the offsets that a group has committed.

Up to version 7 the request names one group, since version 8 a list of them; null topics stand for all topics.

    2  null topics; error code for the whole response
    3  throttle time
    5  leader epoch (KIP-320)
    6  flexible
    7  wait for pending transactional offsets: UNSTABLE_OFFSET_COMMIT (KIP-447)
    8  many groups at once (KIP-709)
    9  member id and epoch of KIP-848 groups
    10  topic ids replace names (KIP-848)
"""

from kwire.protocol.primitives import GroupId, TopicName, boolean, int16, int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class OffsetFetchRequestTopic:
    name: TopicName = field("0-7")
    partition_indexes: list[int32] = field("0-7")


@struct
class OffsetFetchRequestTopics:
    name: TopicName = field("8-9", ignorable=True)
    topic_id: uuid = field("10+", ignorable=True)
    partition_indexes: list[int32] = field("8+")


@struct
class OffsetFetchRequestGroup:
    group_id: GroupId = field("8+")
    member_id: string | None = field("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+", nullable="8+")


@message(key=9, kind="request", versions="1-10", flexible="6+")
class OffsetFetchRequest:
    group_id: GroupId = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: boolean = field("7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: int32 = field("0-7")
    committed_offset: int64 = field("0-7")
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    metadata: string | None = field("0-7", nullable="0-7")
    error_code: int16 = field("0-7")


@struct
class OffsetFetchResponseTopic:
    name: TopicName = field("0-7")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


@struct
class OffsetFetchResponsePartitions:
    partition_index: int32 = field("8+")
    committed_offset: int64 = field("8+")
    committed_leader_epoch: int32 = field("8+", default=-1, ignorable=True)
    metadata: string | None = field("8+", nullable="8+")
    error_code: int16 = field("8+")


@struct
class OffsetFetchResponseTopics:
    name: TopicName = field("8-9", ignorable=True)
    topic_id: uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


@struct
class OffsetFetchResponseGroup:
    group_id: GroupId = field("8+")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: int16 = field("8+")


@message(key=9, kind="response", versions="1-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")
