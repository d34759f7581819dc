"""AlterPartitionReassignments: move partitions to other brokers, or cancel such moves (KIP-455).

1  changes of the replication factor may be forbidden (KIP-860)
"""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class ReassignablePartition:
    partition_index: int32 = field("0+")
    replicas: list[BrokerId] | None = field("0+", nullable="0+", default=None)
    """New replicas, the preferred one first; None cancels the current move."""


@struct
class ReassignableTopic:
    name: TopicName = field("0+")
    partitions: list[ReassignablePartition] = field("0+")


@message(key=45, kind="request", versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int32 = field("0+", default=60000)
    allow_replication_factor_change: boolean = field("1+", default=True)
    topics: list[ReassignableTopic] = field("0+")


@struct
class ReassignablePartitionResponse:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")


@struct
class ReassignableTopicResponse:
    name: TopicName = field("0+")
    partitions: list[ReassignablePartitionResponse] = field("0+")


@message(key=45, kind="response", versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int32 = field("0+")
    allow_replication_factor_change: boolean = field("1+", default=True, ignorable=True)
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field("0+")
