"""Vote: request the vote of a voter of the metadata quorum for a candidate (KIP-595).

1  voters are identified by id and directory, endpoints in the response; flexible since 0 (KIP-853)
2  pre-votes, which do not increment the epoch (KIP-996)
"""

from kwire.protocol.primitives import BrokerId, TopicName, boolean, int16, int32, int64, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class VoteRequestPartitionData:
    partition_index: int32 = field("0+")
    replica_epoch: int32 = field("0+")
    replica_id: BrokerId = field("0+")
    """Id of the candidate."""
    replica_directory_id: uuid = field("1+", ignorable=True)
    voter_directory_id: uuid = field("1+", ignorable=True)
    last_offset_epoch: int32 = field("0+")
    last_offset: int64 = field("0+")
    """Log end offset of the candidate."""
    pre_vote: boolean = field("2+")


@struct
class VoteRequestTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[VoteRequestPartitionData] = field("0+")


@message(key=52, kind="request", versions="0-2", flexible="0+")
class VoteRequest:
    cluster_id: string | None = field("0+", nullable="0+", default=None)
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData] = field("0+")


@struct
class VoteResponsePartitionData:
    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: BrokerId = field("0+")
    """-1 if unknown."""
    leader_epoch: int32 = field("0+")
    vote_granted: boolean = field("0+")


@struct
class VoteResponseTopicData:
    topic_name: TopicName = field("0+")
    partitions: list[VoteResponsePartitionData] = field("0+")


@struct
class VoteNodeEndpoint:
    node_id: BrokerId = field("1+")
    host: string = field("1+")
    port: uint16 = field("1+")


@message(key=52, kind="response", versions="0-2", flexible="0+")
class VoteResponse:
    error_code: int16 = field("0+")
    topics: list[VoteResponseTopicData] = field("0+")
    node_endpoints: list[VoteNodeEndpoint] = field("1+", tag=0, tagged="1+")
