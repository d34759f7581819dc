"""ElectLeaders: elect the preferred replica, or any live one, as leader of partitions (KIP-183).

1  unclean elections, an error for the whole response (KIP-460)
2  flexible
"""

from kwire.protocol.primitives import TopicName, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class ElectLeadersTopicPartitions:
    topic: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@message(key=43, kind="request", versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int8 = field("1+")
    """0 the preferred replica; 1 the first live one if none is in sync, which may lose records."""
    topic_partitions: list[ElectLeadersTopicPartitions] | None = field("0+", nullable="0+")
    """None stands for all partitions."""
    timeout_ms: int32 = field("0+", default=60000)


@struct
class ElectLeadersPartitionResult:
    partition_id: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")


@struct
class ReplicaElectionResult:
    topic: TopicName = field("0+")
    partition_result: list[ElectLeadersPartitionResult] = field("0+")


@message(key=43, kind="response", versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field("0+")
