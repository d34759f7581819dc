"""BeginQuorumEpoch: announce the new leader of the metadata quorum to the voters (KIP-595).

1  flexible; voters are identified by id and directory, endpoints of the leader (KIP-853)
"""

from kwire.protocol.primitives import BrokerId, TopicName, int16, int32, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class BeginQuorumEpochRequestPartitionData:
    partition_index: int32 = field("0+")
    voter_directory_id: uuid = field("1+", ignorable=True)
    leader_id: BrokerId = field("0+")
    leader_epoch: int32 = field("0+")


@struct
class BeginQuorumEpochRequestTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[BeginQuorumEpochRequestPartitionData] = field("0+")


@struct
class BeginQuorumEpochLeaderEndpoint:
    name: string = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=53, kind="request", versions="0-1", flexible="1+")
class BeginQuorumEpochRequest:
    cluster_id: string | None = field("0+", nullable="0+", default=None)
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData] = field("0+")
    leader_endpoints: list[BeginQuorumEpochLeaderEndpoint] = field("1+", ignorable=True)


@struct
class BeginQuorumEpochResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: BrokerId = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")


@struct
class BeginQuorumEpochResponseTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[BeginQuorumEpochResponsePartitionData] = field("0+")


@struct
class BeginQuorumEpochNodeEndpoint:
    node_id: BrokerId = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=53, kind="response", versions="0-1", flexible="1+")
class BeginQuorumEpochResponse:
    error_code: int16 = field("0+")
    topics: list[BeginQuorumEpochResponseTopicData] = field("0+")
    node_endpoints: list[BeginQuorumEpochNodeEndpoint] = field("1+", tag=0, tagged="1+")
