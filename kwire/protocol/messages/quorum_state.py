"""QuorumStateData: the file quorum-state, in which a node of the metadata quorum stores its epoch, leader and vote.

The file is JSON with these fields under Kafka's names and `data_version`; it is never written in binary form.

1  the voted directory id; without voters, which are in the log (KIP-853)
"""

from kwire.protocol.primitives import int32, int64, string, uuid
from kwire.protocol.schema import field, message, struct


@struct
class QuorumStateVoter:
    voter_id: int32 = field("0")


@message(kind="data", versions="0-1", flexible="0+")
class QuorumStateData:
    cluster_id: string = field("0")
    leader_id: int32 = field("0+", default=-1)
    """-1 if unknown."""
    leader_epoch: int32 = field("0+", default=-1)
    voted_id: int32 = field("0+", default=-1)
    """-1 if the node has not voted in the epoch."""
    voted_directory_id: uuid = field("1+")
    applied_offset: int64 = field("0")
    current_voters: list[QuorumStateVoter] | None = field("0", nullable="0")
