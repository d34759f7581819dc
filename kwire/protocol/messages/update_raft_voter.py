"""UpdateRaftVoter: update a voter's endpoints and kraft.versions at the leader (KIP-853)."""

from kwire.protocol.primitives import BrokerId, int16, int32, string, uint16, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@struct
class UpdateRaftVoterListener:
    name: string = field("0+")
    host: string = field("0+")
    port: uint16 = field("0+")


@frozen_struct
class UpdateRaftVoterKRaftVersionFeature:
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


@message(key=82, kind="request", versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    cluster_id: string | None = field("0+", nullable="0+")
    current_leader_epoch: int32 = field("0+")
    """-1 if unknown."""
    voter_id: int32 = field("0+")
    voter_directory_id: uuid = field("0+")
    listeners: list[UpdateRaftVoterListener] = field("0+")
    kraft_version_feature: UpdateRaftVoterKRaftVersionFeature = field("0+")


@frozen_struct
class UpdateRaftVoterCurrentLeader:
    leader_id: BrokerId = field("0+", default=-1)
    leader_epoch: int32 = field("0+", default=-1)
    host: string = field("0+")
    port: int32 = field("0+")


@message(key=82, kind="response", versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    current_leader: UpdateRaftVoterCurrentLeader = field("0+", tag=0, tagged="0+")
