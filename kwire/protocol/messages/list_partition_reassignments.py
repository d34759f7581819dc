"""ListPartitionReassignments: the moves of partitions that are in progress (KIP-455)."""

from kwire.protocol.primitives import BrokerId, TopicName, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: TopicName = field("0+")
    partition_indexes: list[int32] = field("0+")


@message(key=46, kind="request", versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field("0+", nullable="0+", default=None)
    """None lists all."""


@struct
class OngoingPartitionReassignment:
    partition_index: int32 = field("0+")
    replicas: list[BrokerId] = field("0+")
    adding_replicas: list[BrokerId] = field("0+")
    removing_replicas: list[BrokerId] = field("0+")


@struct
class OngoingTopicReassignment:
    name: TopicName = field("0+")
    partitions: list[OngoingPartitionReassignment] = field("0+")


@message(key=46, kind="response", versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field("0+")
