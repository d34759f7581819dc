"""Requests of nodes and brokers to controllers; each is valid unless a test changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kwire.cluster.metadata.features import SUPPORTED
from kwire.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from kwire.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from kwire.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochLeaderEndpoint,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from kwire.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)
from kwire.protocol.messages.create_topics import CreateTopicsRequest
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochReplicaInfo,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
)
from kwire.protocol.messages.envelope import EnvelopeRequest
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
from kwire.protocol.requesting import frame_request
from kwire.server.other_nodes.envelopes import encode_principal
from kwire.simulation.controllers import CLUSTER_ID, LISTENER, directory_id

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
BROKER = 7
"""Id of a registered broker with a session."""
DIRECTORY = UUID(int=5000 + BROKER)
"""Log directory id of the broker."""
SIZE_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Cluster that the requests are built for: two controllers and a registered broker."""

    leader_id: int
    other_id: int
    epoch: int
    broker_epoch: int
    snapshot: SnapshotId = field(default_factory=lambda: SnapshotId(end_offset=0, epoch=0))
    """Id of a snapshot of the leader."""


# --- the quorum


def fetch(world: World, *, cluster_id: str | None = CLUSTER_ID, topic_id: UUID = TOPIC_ID, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": world.epoch,
        "fetch_offset": 1,
        "last_fetched_epoch": 1,
    }
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=FetchReplicaState(replica_id=BROKER),
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(**(asked | changes))])],
    )


def fetch_snapshot(world: World, *, cluster_id: str | None = CLUSTER_ID, topic: str = TOPIC, **changes: Any) -> Any:
    asked: dict[str, Any] = {"partition": 0, "current_leader_epoch": world.epoch, "snapshot_id": world.snapshot}
    part = FetchSnapshotRequestPartitionSnapshot(**(asked | {"position": 0} | changes))
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=BROKER,
        topics=[FetchSnapshotRequestTopicSnapshot(name=topic, partitions=[part])],
    )


def vote(
    world: World, *, cluster_id: str | None = CLUSTER_ID, voter_id: int = 0, topic: str = TOPIC, **changes: Any
) -> Any:
    asked: dict[str, Any] = {
        "partition_index": 0,
        "replica_epoch": world.epoch,
        "replica_id": world.other_id,
        "replica_directory_id": directory_id(world.other_id),
        "voter_directory_id": directory_id(world.leader_id),
        "last_offset_epoch": 1,
        "last_offset": 1,
        "pre_vote": True,
    }
    return VoteRequest(
        cluster_id=cluster_id,
        voter_id=voter_id or world.leader_id,
        topics=[VoteRequestTopicData(topic_name=topic, partitions=[VoteRequestPartitionData(**(asked | changes))])],
    )


def begin_epoch(world: World, *, cluster_id: str | None = CLUSTER_ID, voter_id: int = 0, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "partition_index": 0,
        "voter_directory_id": directory_id(world.other_id),
        "leader_id": world.leader_id,
        "leader_epoch": world.epoch,
    }
    part = BeginQuorumEpochRequestPartitionData(**(asked | changes))
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter_id or world.other_id,
        topics=[BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[part])],
        leader_endpoints=[BeginQuorumEpochLeaderEndpoint(name=LISTENER, host="localhost", port=1)],
    )


def end_epoch(world: World, *, cluster_id: str | None = CLUSTER_ID, topic: str = TOPIC, **changes: Any) -> Any:
    candidate = EndQuorumEpochReplicaInfo(
        candidate_id=world.other_id, candidate_directory_id=directory_id(world.other_id)
    )
    asked: dict[str, Any] = {"partition_index": 0, "leader_id": world.leader_id, "leader_epoch": world.epoch}
    part = EndQuorumEpochRequestPartitionData(**(asked | {"preferred_candidates": [candidate]} | changes))
    return EndQuorumEpochRequest(
        cluster_id=cluster_id, topics=[EndQuorumEpochRequestTopicData(topic_name=topic, partitions=[part])]
    )


def add_voter(world: World, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1000,
        "voter_id": world.other_id,
        "voter_directory_id": directory_id(world.other_id),
        "listeners": [AddRaftVoterListener(name=LISTENER, host="localhost", port=1)],
    }
    return AddRaftVoterRequest(**(asked | changes))


def remove_voter(world: World, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "voter_id": world.other_id,
        "voter_directory_id": directory_id(world.other_id),
    }
    return RemoveRaftVoterRequest(**(asked | changes))


def update_voter(world: World, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "current_leader_epoch": world.epoch,
        "voter_id": world.other_id,
        "voter_directory_id": directory_id(world.other_id),
        "listeners": [UpdateRaftVoterListener(name=LISTENER, host="localhost", port=1)],
        "kraft_version_feature": UpdateRaftVoterKRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    }
    return UpdateRaftVoterRequest(**(asked | changes))


def describe_quorum(world: World, *, topic: str = TOPIC, index: int = 0) -> Any:
    part = DescribeQuorumRequestPartitionData(partition_index=index)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=[part])])


# --- brokers


def registration(
    world: World | None = None, *, levels: dict[str, tuple[int, int]] | None = None, **changes: Any
) -> Any:
    asked: dict[str, Any] = {
        "broker_id": BROKER,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=1),
        "listeners": [BrokerRegistrationListener(name="PLAINTEXT", host="localhost", port=1)],
        "features": [
            BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in (dict(SUPPORTED) | (levels or {})).items()
            if high >= low
        ],
        "log_dirs": [DIRECTORY],
    }
    return BrokerRegistrationRequest(**(asked | changes))


def another(**changes: Any) -> Callable[[World], Any]:
    """Return the registration of a broker that is not registered yet."""
    asked: dict[str, Any] = {"broker_id": 8, "incarnation_id": UUID(int=8), "log_dirs": [UUID(int=5008)]}
    return lambda world: registration(world, **(asked | changes))


def controller_registration(world: World, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "controller_id": world.other_id,
        "incarnation_id": UUID(int=1),
        "listeners": [ControllerRegistrationListener(name=LISTENER, host="localhost", port=1)],
        "features": [
            ControllerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ],
    }
    return ControllerRegistrationRequest(**(asked | changes))


def heartbeat(world: World, **changes: Any) -> Any:
    asked: dict[str, Any] = {"broker_id": BROKER, "broker_epoch": world.broker_epoch, "current_metadata_offset": 1}
    return BrokerHeartbeatRequest(**(asked | {"want_fence": True} | changes))


def alter_partition(world: World, **changes: Any) -> Any:
    part = AlterPartitionRequestPartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    topics = [AlterPartitionRequestTopicData(topic_id=UUID(int=99), partitions=[part])]
    asked: dict[str, Any] = {"broker_id": BROKER, "broker_epoch": world.broker_epoch, "topics": topics}
    return AlterPartitionRequest(**(asked | changes))


def assign(world: World, *, directory: UUID = DIRECTORY, **changes: Any) -> Any:
    part = AssignReplicasToDirsRequestPartitionData(partition_index=0)
    topic = AssignReplicasToDirsRequestTopicData(topic_id=UUID(int=99), partitions=[part])
    directories = [AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[topic])]
    asked: dict[str, Any] = {"broker_id": BROKER, "broker_epoch": world.broker_epoch, "directories": directories}
    return AssignReplicasToDirsRequest(**(asked | changes))


def producer_ids(world: World, **changes: Any) -> Any:
    return AllocateProducerIdsRequest(**({"broker_id": BROKER, "broker_epoch": world.broker_epoch} | changes))


# --- envelopes


def inside(request: Any, version: int, *, cut: int = 0, add: bytes = b"") -> bytes:
    """Return a request as it appears in an envelope, with its header."""
    data = bytes(frame_request(request, version, 5, "client"))[SIZE_BYTES:]
    return data[: len(data) - cut] + add


VALIDATED = inside(CreateTopicsRequest(topics=[], timeout_ms=1000, validate_only=True), 7)


def envelope(**changes: Any) -> Callable[[World], Any]:
    asked: dict[str, Any] = {
        "request_data": VALIDATED,
        "request_principal": encode_principal("User:ANONYMOUS"),
        "client_host_address": bytes([127, 0, 0, 1]),
    }
    return lambda world: EnvelopeRequest(**(asked | changes))


def whole_envelope() -> bytes:
    return inside(envelope()(World(leader_id=0, other_id=0, epoch=0, broker_epoch=0)), 0)
