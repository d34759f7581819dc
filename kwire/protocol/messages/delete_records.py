"""DeleteRecords: move a partition's log start offset forward (KIP-107).

2  flexible
"""

from kwire.protocol.primitives import TopicName, int16, int32, int64
from kwire.protocol.schema import field, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int32 = field("0+")
    offset: int64 = field("0+")


@struct
class DeleteRecordsTopic:
    name: TopicName = field("0+")
    partitions: list[DeleteRecordsPartition] = field("0+")


@message(key=21, kind="request", versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: int32 = field("0+")


@struct
class DeleteRecordsPartitionResult:
    partition_index: int32 = field("0+")
    low_watermark: int64 = field("0+")
    error_code: int16 = field("0+")


@struct
class DeleteRecordsTopicResult:
    name: TopicName = field("0+")
    partitions: list[DeleteRecordsPartitionResult] = field("0+")


@message(key=21, kind="response", versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")
