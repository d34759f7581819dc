"""AddRaftVoter: make an observer a voter of the metadata quorum (KIP-853).

1  the response need not wait until the new voters are committed (KIP-1186)
"""

from kwire.protocol.primitives import boolean, int16, int32, string, uint16, uuid
from kwire.protocol.schema import field, message, struct


@struct
class AddRaftVoterListener:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")


@message(key=80, kind="request", versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: string | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: uuid = field("0+")
    listeners: list[AddRaftVoterListener] = field("0+")
    ack_when_committed: boolean = field("1+", default=True)
    """False if the leader may respond as soon as it has written the change."""


@message(key=80, kind="response", versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", ignorable=True)
