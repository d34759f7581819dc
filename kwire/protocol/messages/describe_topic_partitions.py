"""DescribeTopicPartitions: topics page by page, with eligible leader replicas (KIP-966). Flexible from the start."""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int16, int32, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DescribeTopicPartitionsTopicRequest:
    name: TopicName = field("0+")


@struct
class DescribeTopicPartitionsRequestCursor:
    topic_name: TopicName = field("0+")
    partition_index: int32 = field("0+")


@message(key=75, kind="request", versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[DescribeTopicPartitionsTopicRequest] = field("0+")
    response_partition_limit: int32 = field("0+", default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = field("0+", nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: BrokerId = field("0+")
    leader_epoch: int32 = field("0+", default=-1, ignorable=True)
    replica_nodes: list[BrokerId] = field("0+")
    isr_nodes: list[BrokerId] = field("0+")
    eligible_leader_replicas: list[BrokerId] | None = field("0+", nullable="0+", default=None)
    last_known_elr: list[BrokerId] | None = field("0+", nullable="0+", default=None)
    offline_replicas: list[BrokerId] = field("0+", ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int16 = field("0+")
    name: TopicName | None = field("0+", nullable="0+")
    topic_id: uuid = field("0+", ignorable=True)
    is_internal: boolean = field("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("0+", default=-0x80000000)


@struct
class DescribeTopicPartitionsResponseCursor:
    topic_name: TopicName = field("0+")
    partition_index: int32 = field("0+")


@message(key=75, kind="response", versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field("0+", nullable="0+", default=None)
