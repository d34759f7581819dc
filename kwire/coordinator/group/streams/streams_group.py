"""State of one streams group (KIP-1071), and its invariants.

                             topology is valid, or changes          target assignment computed
    Empty ---> NotReady --------------------------> Assigning -------------------------> Reconciling ---> Stable
      ^          ^  first member joins                  ^                                    |              |
      |          |                                      +------------------------------------+--------------+
      |          +------ any state: topics are missing              the group epoch is bumped
      +-- any state: no member is left

The state follows from the members, the epochs and the topology. All of it is changed by replay of records only.
The group also has soft state, which is lost when its partition moves: the configured topology, which is computed again,
the endpoint epoch, and the request to shut the application down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kwire.cluster.metadata.image import TopicImage
from kwire.coordinator.group.streams.configured_topology import ConfiguredTopology
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.task_processes import TaskProcesses
from kwire.coordinator.group.streams.tasks import NO_TARGET, Tasks
from kwire.coordinator.group.streams.topology import Topology
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import StreamsGroupEndpointPartitions

GROUP_TYPE = "streams"
PROTOCOL_TYPE = "streams"
NO_CONFIGS: Mapping[str, str] = {}
NO_TOPOLOGY_EPOCH = -1
INITIAL_EPOCH = 1
"""Epoch of a group, and of its target assignment, before the first member joins."""


class StreamsGroupState(Enum):
    """State of a streams group; the values are the names that clients receive."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """Configured topology, with the state from which it was computed."""

    topology: ConfiguredTopology
    topics: Mapping[str, TopicImage]
    """All topics when the hash of the group's topics was compared last."""
    metadata_hash: int
    """Hash of the group's topics; the group has another one if its write has failed."""


class StreamsGroup:
    """Streams group; changed by replay on the event loop."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        """Bumped when a new target assignment is needed; never decreases."""
        self.metadata_hash = 0
        """Hash of the topology's topics when the epoch was last bumped (metadata_hash.py)."""
        self.validated_topology_epoch = 0
        """Epoch of the topology that fits the topics, or -1; 0 in a new group, as in Kafka."""
        self.assignment_configs: Mapping[str, str] = NO_CONFIGS
        """Settings with which the assignor was used last."""
        self.topology: Topology | None = None
        self.target_epoch = INITIAL_EPOCH
        """Group epoch for which the target was computed; -1 after a tombstone."""
        self.target_timestamp_ms = 0
        """Wall-clock time at which the target was computed; 0 if unknown."""
        self.processes = TaskProcesses()
        self._targets: dict[str, Tasks] = {}
        self._members: dict[str, StreamsMember] = {}
        self._reconciled_count = 0
        """Number of members that are reconciled to the target assignment's epoch."""
        # Soft state
        self.configured: Configured | None = None
        self.endpoint_partitions: dict[str, tuple[tuple[Any, ...], StreamsGroupEndpointPartitions]] = {}
        """Partitions by the id of a member with an endpoint, and the values from which they were computed."""
        self.endpoint_epoch = 0
        """Bumped when the tasks of a member with an endpoint change."""
        self.shutdown_requested_by: str | None = None
        """Member that has asked all clients of the application to stop."""

    # --- members

    @property
    def members(self) -> Mapping[str, StreamsMember]:
        return self._members

    @property
    def is_empty(self) -> bool:
        return not self._members

    @property
    def state(self) -> StreamsGroupState:
        if not self._members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if self._reconciled_count < len(self._members):
            return StreamsGroupState.RECONCILING
        return StreamsGroupState.STABLE

    def member(self, member_id: str) -> StreamsMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID."""
        member = self._members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def put_member(self, member: StreamsMember) -> None:
        """Add a member, or replace its state."""
        self._drop(self._members.get(member.member_id))
        self._members[member.member_id] = member
        self.processes.add(member)
        self._reconciled_count += member.is_reconciled_to(self.target_epoch)

    def remove_member(self, member_id: str) -> None:
        """Remove a member; an unknown one is ignored."""
        self._drop(self._members.pop(member_id, None))
        self.endpoint_partitions.pop(member_id, None)
        if not self._members:
            self.shutdown_requested_by = None

    def _drop(self, member: StreamsMember | None) -> None:
        if member is not None:
            self.processes.remove(member)
            self._reconciled_count -= member.is_reconciled_to(self.target_epoch)

    # --- target assignment

    @property
    def targets(self) -> Mapping[str, Tasks]:
        """Target of each member that has one."""
        return self._targets

    def target_of(self, member_id: str) -> Tasks:
        return self._targets.get(member_id, NO_TARGET)

    def put_target(self, member_id: str, tasks: Tasks) -> None:
        self._targets[member_id] = tasks

    def remove_target(self, member_id: str) -> None:
        self._targets.pop(member_id, None)

    def replace_target_metadata(self, epoch: int, timestamp_ms: int) -> None:
        self.target_epoch, self.target_timestamp_ms = epoch, timestamp_ms
        self._reconciled_count = sum(member.is_reconciled_to(epoch) for member in self._members.values())

    # --- topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Return True if the group has members, and its topology reads the topic."""
        return bool(self._members) and self.topology is not None and topic in self.topology.sources

    # --- invariants

    def check_invariants(self) -> None:
        """Assert that counts and indexes agree with the members, and that no active task has two owners."""
        members = self._members.values()
        assert self._reconciled_count == sum(member.is_reconciled_to(self.target_epoch) for member in members)
        assert self.target_epoch <= self.epoch, f"the target of {self.group_id} is newer than the group"
        owned: set[tuple[str, int]] = set()
        for member in members:
            for tasks in (member.assigned, member.pending_revocation):
                for subtopology, epochs in tasks.active.items():
                    for partition in epochs:
                        name = f"task {subtopology}_{partition} of {self.group_id}"
                        assert (subtopology, partition) not in owned, f"{name} has two owners"
                        assert self.processes.active_owner(subtopology, partition) == member.process_id, name
                        owned.add((subtopology, partition))
