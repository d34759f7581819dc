"""EndQuorumEpoch: resign as the metadata quorum's leader, and name preferred successors (KIP-595).

1  flexible; candidates are identified by id and directory, endpoints of the leader (KIP-853)
"""

from kwire.protocol.primitives import BrokerId, TopicName, int16, int32, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class EndQuorumEpochReplicaInfo:
    candidate_id: BrokerId = field("1+")
    candidate_directory_id: uuid = field("1+")


@struct
class EndQuorumEpochRequestPartitionData:
    partition_index: int32 = field("0+")
    leader_id: BrokerId = field("0+")
    leader_epoch: int32 = field("0+")
    preferred_successors: list[int32] = field("0", ignorable=True)
    """In order of preference."""
    preferred_candidates: list[EndQuorumEpochReplicaInfo] = field("1+", ignorable=True)
    """In order of preference."""


@struct
class EndQuorumEpochRequestTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[EndQuorumEpochRequestPartitionData] = field("0+")


@struct
class EndQuorumEpochLeaderEndpoint:
    name: string = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=54, kind="request", versions="0-1", flexible="1+")
class EndQuorumEpochRequest:
    cluster_id: string | None = field("0+", nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData] = field("0+")
    leader_endpoints: list[EndQuorumEpochLeaderEndpoint] = field("1+", ignorable=True)


@struct
class EndQuorumEpochResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: BrokerId = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")


@struct
class EndQuorumEpochResponseTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[EndQuorumEpochResponsePartitionData] = field("0+")


@struct
class EndQuorumEpochNodeEndpoint:
    node_id: BrokerId = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=54, kind="response", versions="0-1", flexible="1+")
class EndQuorumEpochResponse:
    error_code: int16 = field("0+")
    topics: list[EndQuorumEpochResponseTopicData] = field("0+")
    node_endpoints: list[EndQuorumEpochNodeEndpoint] = field("1+", tag=0, tagged="1+")
