"""RemoveRaftVoter: remove a voter from the metadata quorum (KIP-853)."""

from kwire.protocol.primitives import int16, int32, string, uuid
from kwire.protocol.schema import field, message


@message(key=81, kind="request", versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: string | None = field("0+", nullable="0+")
    voter_id: int32 = field("0+")
    voter_directory_id: uuid = field("0+")


@message(key=81, kind="response", versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", ignorable=True)
