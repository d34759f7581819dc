"""Requests that this replica sends."""

from __future__ import annotations

from kwire.cluster.quorum.answers import PARTITION, TOPIC, TOPIC_ID
from kwire.cluster.quorum.config import KRAFT_VERSION_MAX, KRAFT_VERSION_MIN, MAX_FETCH_WAIT_MS
from kwire.cluster.quorum.core import Core
from kwire.cluster.quorum.roles import Resigned, SnapshotFetch
from kwire.cluster.quorum.voters import ReplicaKey
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochLeaderEndpoint,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from kwire.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochLeaderEndpoint,
    EndQuorumEpochReplicaInfo,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
)
from kwire.protocol.messages.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchTopic
from kwire.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    SnapshotId,
)
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.protocol.messages.update_raft_voter import (
    UpdateRaftVoterKRaftVersionFeature,
    UpdateRaftVoterListener,
    UpdateRaftVoterRequest,
)
from kwire.protocol.messages.vote import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData


def vote(core: Core, voter: ReplicaKey, *, is_pre_vote: bool) -> VoteRequest:
    end = core.end
    partition = VoteRequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=core.epoch,
        replica_id=core.config.node_id,
        replica_directory_id=core.config.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=is_pre_vote,
    )
    return VoteRequest(
        cluster_id=core.config.cluster_id,
        voter_id=voter.node_id,
        topics=[VoteRequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def begin_quorum_epoch(core: Core, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=core.config.node_id,
        leader_epoch=core.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=core.config.cluster_id,
        voter_id=voter.node_id,
        topics=[BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochLeaderEndpoint(name=it.name, host=it.host, port=it.port) for it in core.config.endpoints
        ],
    )


def end_quorum_epoch(core: Core, role: Resigned) -> EndQuorumEpochRequest:
    successors = role.preferred_successors
    partition = EndQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        leader_id=core.config.node_id,
        leader_epoch=core.epoch,
        preferred_successors=[key.node_id for key in successors],
        preferred_candidates=[
            EndQuorumEpochReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=core.config.cluster_id,
        topics=[EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochLeaderEndpoint(name=it.name, host=it.host, port=it.port) for it in core.config.endpoints
        ],
    )


def fetch(core: Core) -> FetchRequest:
    """Return a fetch from the flushed end offset: it confirms all earlier records as durable (Q2)."""
    assert core.is_log_durable, "a fetch confirms only durable records"
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=core.epoch,
        fetch_offset=core.log.flushed_end_offset,
        last_fetched_epoch=core.log.last_epoch,
        log_start_offset=core.log.start_offset,
        partition_max_bytes=core.config.fetch_max_bytes,
        replica_directory_id=core.config.directory_id,
        high_watermark=core.high_watermark,
    )
    return FetchRequest(
        cluster_id=core.config.cluster_id,
        replica_state=FetchReplicaState(replica_id=core.config.node_id),
        max_wait_ms=MAX_FETCH_WAIT_MS,
        max_bytes=core.config.fetch_max_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def fetch_snapshot(core: Core, snapshot: SnapshotFetch) -> FetchSnapshotRequest:
    sent_id = snapshot.snapshot_id
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=core.epoch,
        snapshot_id=SnapshotId(end_offset=sent_id.offset, epoch=sent_id.epoch),
        position=snapshot.position,
        replica_directory_id=core.config.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=core.config.cluster_id,
        replica_id=core.config.node_id,
        max_bytes=core.config.fetch_snapshot_max_bytes,
        topics=[FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def update_voter(core: Core) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=core.config.cluster_id,
        current_leader_epoch=core.epoch,
        voter_id=core.config.node_id,
        voter_directory_id=core.config.directory_id,
        listeners=[UpdateRaftVoterListener(name=it.name, host=it.host, port=it.port) for it in core.config.endpoints],
        kraft_version_feature=UpdateRaftVoterKRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_MIN, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def add_voter(core: Core) -> AddRaftVoterRequest:
    """Return a request to become a voter, answered before its commit so that fetching continues (KIP-1186)."""
    return AddRaftVoterRequest(
        cluster_id=core.config.cluster_id,
        timeout_ms=core.config.request_timeout_ms,
        voter_id=core.config.node_id,
        voter_directory_id=core.config.directory_id,
        listeners=[AddRaftVoterListener(name=it.name, host=it.host, port=it.port) for it in core.config.endpoints],
        ack_when_committed=False,
    )


def remove_voter(core: Core, voter: ReplicaKey) -> RemoveRaftVoterRequest:
    """Return a request to remove the voter that had this node's id with another directory."""
    return RemoveRaftVoterRequest(
        cluster_id=core.config.cluster_id, voter_id=voter.node_id, voter_directory_id=voter.directory_id
    )
