"""DescribeQuorum: leader, voters and observers of the metadata quorum, and how far each has replicated (KIP-595).

1  times of the last fetch and of catching up (KIP-836)
2  error messages, directory ids, endpoints of the nodes (KIP-853)
"""

from kwire.protocol.primitives import BrokerId, TopicName, int16, int32, int64, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class DescribeQuorumRequestPartitionData:
    partition_index: int32 = field("0+")


@struct
class DescribeQuorumRequestTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[DescribeQuorumRequestPartitionData] = field("0+")


@message(key=55, kind="request", versions="0-2", flexible="0+", elements_max=1000)
class DescribeQuorumRequest:
    topics: list[DescribeQuorumRequestTopicData] = field("0+")


@struct
class QuorumReplicaState:
    replica_id: BrokerId = field("0+")
    replica_directory_id: uuid = field("2+")
    log_end_offset: int64 = field("0+")
    """-1 if unknown."""
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """Leader's clock in ms; -1 for the leader itself and for voters that have not fetched."""
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """Leader's clock in ms; the current time for the leader itself, -1 if unknown."""


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("2+", nullable="2+", ignorable=True)
    leader_id: BrokerId = field("0+")
    """-1 if the leader is unknown."""
    leader_epoch: int32 = field("0+")
    high_watermark: int64 = field("0+")
    current_voters: list[QuorumReplicaState] = field("0+")
    observers: list[QuorumReplicaState] = field("0+")


@struct
class DescribeQuorumResponseTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[DescribeQuorumResponsePartitionData] = field("0+")


@struct
class QuorumListener:
    name: string = field("2+")
    host: string = field("2+")
    port: uint16 = field("2+")


@struct
class QuorumNode:
    node_id: BrokerId = field("2+")
    listeners: list[QuorumListener] = field("2+")


@message(key=55, kind="response", versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int16 = field("0+")
    error_message: string | None = field("2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field("0+")
    nodes: list[QuorumNode] = field("2+")
