"""CreatePartitions: increase a topic's number of partitions (KIP-195).

2  flexible
3  THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599)
"""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[BrokerId] = field("0+")


@struct
class CreatePartitionsTopic:
    name: TopicName = field("0+")
    count: int32 = field("0+")
    assignments: list[CreatePartitionsAssignment] | None = field("0+", nullable="0+")


@message(key=37, kind="request", versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field("0+")
    timeout_ms: int32 = field("0+")
    validate_only: boolean = field("0+")


@struct
class CreatePartitionsTopicResult:
    name: TopicName = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)


@message(key=37, kind="response", versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[CreatePartitionsTopicResult] = field("0+")
