"""DescribeProducers: a partition's state of its producers, for finding hanging transactions (KIP-664)."""

from kwire.protocol.primitives import ProducerId, TopicName, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribeProducersTopicRequest:
    name: TopicName = field("0+")
    partition_indexes: list[int32] = field("0+")


@message(key=61, kind="request", versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[DescribeProducersTopicRequest] = field("0+")


@struct
class ProducerState:
    producer_id: ProducerId = field("0+")
    producer_epoch: int32 = field("0+")
    last_sequence: int32 = field("0+", default=-1)
    last_timestamp: int64 = field("0+", default=-1)
    coordinator_epoch: int32 = field("0+")
    current_txn_start_offset: int64 = field("0+", default=-1)


@struct
class PartitionResponse:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = field("0+")


@struct
class TopicResponse:
    name: TopicName = field("0+")
    partitions: list[PartitionResponse] = field("0+")


@message(key=61, kind="response", versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: int32 = field("0+")
    topics: list[TopicResponse] = field("0+")
