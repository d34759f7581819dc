"""Responses of the quorum's APIs, all about the one partition __cluster_metadata-0."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.cluster.quorum.core import Core, Incoming
from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.ready import Answer
from kwire.cluster.quorum.roles import Leader, VoterChange
from kwire.cluster.quorum.voters import Listener, endpoint_of
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterResponse
from kwire.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochNodeEndpoint,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
)
from kwire.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochNodeEndpoint,
    EndQuorumEpochResponse,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
)
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartitionData,
    FetchResponse,
)
from kwire.protocol.messages.fetch_snapshot import (
    FetchSnapshotLeaderIdAndEpoch,
    FetchSnapshotNodeEndpoint,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    SnapshotId,
)
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from kwire.protocol.messages.update_raft_voter import UpdateRaftVoterCurrentLeader, UpdateRaftVoterResponse
from kwire.protocol.messages.vote import (
    VoteNodeEndpoint,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
PARTITION = 0
FETCH_ENDPOINTS_VERSION = 17
"""First version of Fetch that contains the leader's endpoint; the other APIs contain it from version 1."""


def leader_endpoint(core: Core, incoming: Incoming, first_version: int = 1) -> Listener | None:
    """Return the leader's endpoint for the listener through which the request came."""
    if incoming.version < first_version:
        return None
    return endpoint_of(core.leader_endpoints, incoming.listener)


def vote(core: Core, incoming: Incoming, error: ErrorCode, *, is_granted: bool = False) -> VoteResponse:
    at = leader_endpoint(core, incoming)
    partition = VoteResponsePartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=core.leader_id,
        leader_epoch=core.epoch,
        vote_granted=is_granted,
    )
    return VoteResponse(
        topics=[VoteResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[VoteNodeEndpoint(node_id=core.leader_id, host=at.host, port=at.port)] if at else [],
    )


def begin_quorum_epoch(core: Core, incoming: Incoming, error: ErrorCode) -> BeginQuorumEpochResponse:
    at = leader_endpoint(core, incoming)
    partition = BeginQuorumEpochResponsePartitionData(
        partition_index=PARTITION, error_code=error, leader_id=core.leader_id, leader_epoch=core.epoch
    )
    return BeginQuorumEpochResponse(
        topics=[BeginQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[BeginQuorumEpochNodeEndpoint(node_id=core.leader_id, host=at.host, port=at.port)] if at else [],
    )


def end_quorum_epoch(core: Core, incoming: Incoming, error: ErrorCode) -> EndQuorumEpochResponse:
    at = leader_endpoint(core, incoming)
    partition = EndQuorumEpochResponsePartitionData(
        partition_index=PARTITION, error_code=error, leader_id=core.leader_id, leader_epoch=core.epoch
    )
    return EndQuorumEpochResponse(
        topics=[EndQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[EndQuorumEpochNodeEndpoint(node_id=core.leader_id, host=at.host, port=at.port)] if at else [],
    )


def fetch(core: Core, incoming: Incoming, error: ErrorCode, **details: Any) -> FetchResponse:
    """Return a response without records; the driver adds them."""
    at = leader_endpoint(core, incoming, FETCH_ENDPOINTS_VERSION)
    established = isinstance(core.role, Leader) and core.role.has_high_watermark
    partition = FetchPartitionData(
        partition_index=PARTITION,
        error_code=error,
        high_watermark=core.high_watermark if established and not error else -1,
        log_start_offset=core.log.start_offset,
        current_leader=FetchLeaderIdAndEpoch(leader_id=core.leader_id, leader_epoch=core.epoch),
        records=b"",
        **details,
    )
    return FetchResponse(
        responses=[FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=[FetchNodeEndpoint(node_id=core.leader_id, host=at.host, port=at.port)] if at else [],
    )


def fetch_snapshot(
    core: Core,
    incoming: Incoming,
    error: ErrorCode,
    *,
    snapshot_id: OffsetAndEpoch,
    size: int = 0,
    position: int = 0,
    topic: tuple[str, int] = (TOPIC, PARTITION),
) -> FetchSnapshotResponse:
    """Return a response without bytes; the driver adds them."""
    at = leader_endpoint(core, incoming)
    partition = FetchSnapshotResponsePartitionSnapshot(
        index=topic[1],
        error_code=error,
        snapshot_id=SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        current_leader=FetchSnapshotLeaderIdAndEpoch(leader_id=core.leader_id, leader_epoch=core.epoch),
        size=size,
        position=position,
        unaligned_records=b"",
    )
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponseTopicSnapshot(name=topic[0], partitions=[partition])],
        node_endpoints=[FetchSnapshotNodeEndpoint(node_id=core.leader_id, host=at.host, port=at.port)] if at else [],
    )


def update_voter(core: Core, incoming: Incoming, error: ErrorCode) -> UpdateRaftVoterResponse:
    at = leader_endpoint(core, incoming, first_version=0)
    return UpdateRaftVoterResponse(
        error_code=error,
        current_leader=UpdateRaftVoterCurrentLeader(
            leader_id=core.leader_id,
            leader_epoch=core.epoch,
            host=at.host if at else "",
            port=at.port if at else 0,
        ),
    )


def voter_change(change: VoterChange, error: ErrorCode, text: str | None) -> Answer:
    """Return the delayed answer to an AddRaftVoter or RemoveRaftVoter."""
    made = AddRaftVoterResponse if change.is_addition else RemoveRaftVoterResponse
    return Answer(token=change.token, response=made(error_code=error, error_message=text if error else None))
