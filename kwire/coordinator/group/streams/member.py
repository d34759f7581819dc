"""Member of a streams group (KIP-1071), and its records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from kwire.coordinator.group.streams.tasks import NOTHING_ASSIGNED, AssignedTasks, TaskEpochs, TaskSets
from kwire.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentTasks,
    StreamsGroupMemberEndpoint,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMemberTag,
)

LEAVE_EPOCH = -1
"""Member epoch of a member that leaves its group."""
LEAVE_STATIC_EPOCH = -2
"""Member epoch of a static member that leaves and will rejoin; static members are not supported, as in Kafka 4.3."""
NO_TAGS: Mapping[str, str] = MappingProxyType({})


def _no_tags() -> Mapping[str, str]:
    return NO_TAGS


class MemberState(IntEnum):
    """State of a member's reconciliation, with its number in records."""

    STABLE = 1
    """The member has the tasks of its epoch's target assignment."""
    UNREVOKED_TASKS = 2
    """The member must revoke tasks before it moves to the next epoch."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other members, or other roles in its process, still occupy."""
    UNKNOWN = 127
    """A state of a newer version; the member must rejoin without tasks."""


_STATES: Mapping[int, MemberState] = {state.value: state for state in MemberState}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address at which a client answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """Member of a streams group; immutable, each change makes a new one."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    """Epoch before the last change; accepted because the response with the new one may have been lost."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    """Id of the client process, which has one member for each of its threads."""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=_no_tags)
    assigned: AssignedTasks = NOTHING_ASSIGNED
    pending_revocation: AssignedTasks = NOTHING_ASSIGNED

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def with_assignment(
        self, member_epoch: int, assigned: AssignedTasks, pending_revocation: AssignedTasks, state: MemberState
    ) -> StreamsMember:
        """Return the member with another assignment; its current epoch becomes the previous one."""
        return dataclasses.replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            pending_revocation=pending_revocation,
            state=state,
        )

    # --- records

    def metadata_value(self) -> StreamsGroupMemberMetadataValue:
        endpoint = self.endpoint
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=None
            if endpoint is None
            else StreamsGroupMemberEndpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[
                StreamsGroupMemberTag(key=key, value=self.client_tags[key]) for key in sorted(self.client_tags)
            ],
        )

    def assignment_value(self) -> StreamsGroupCurrentMemberAssignmentValue:
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            active_tasks=_recorded_with_epochs(self.assigned.active),
            standby_tasks=_recorded(self.assigned.standby),
            warmup_tasks=_recorded(self.assigned.warmup),
            active_tasks_pending_revocation=_recorded_with_epochs(self.pending_revocation.active),
            standby_tasks_pending_revocation=_recorded(self.pending_revocation.standby),
            warmup_tasks_pending_revocation=_recorded(self.pending_revocation.warmup),
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        """Return the member with the metadata of a replayed record."""
        endpoint = value.user_endpoint
        return dataclasses.replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_recorded_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        """Return the member with the assignment of a replayed record."""
        epoch = value.member_epoch
        return dataclasses.replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=AssignedTasks(
                _replayed_with_epochs(value.active_tasks, epoch),
                replayed_tasks(value.standby_tasks),
                replayed_tasks(value.warmup_tasks),
            ),
            pending_revocation=AssignedTasks(
                _replayed_with_epochs(value.active_tasks_pending_revocation, epoch),
                replayed_tasks(value.standby_tasks_pending_revocation),
                replayed_tasks(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """Return the member after a tombstone of its assignment."""
        return dataclasses.replace(
            self,
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned=NOTHING_ASSIGNED,
            pending_revocation=NOTHING_ASSIGNED,
        )


def replayed_tasks(recorded: Iterable[Any]) -> TaskSets:
    """Return the tasks of a record, or of a request, as sets by subtopology."""
    return {each.subtopology_id: frozenset(each.partitions) for each in recorded if each.partitions}


def _replayed_with_epochs(recorded: Iterable[StreamsGroupCurrentTasks], member_epoch: int) -> TaskEpochs:
    """Return the active tasks of a record; without epochs, the member's own epoch is used."""
    tasks: dict[str, dict[int, int]] = {}
    for each in recorded:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            tasks[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return tasks


def _recorded(tasks: TaskSets) -> list[StreamsGroupCurrentTasks]:
    return [
        StreamsGroupCurrentTasks(subtopology_id=subtopology, partitions=sorted(tasks[subtopology]))
        for subtopology in sorted(tasks)
    ]


def _recorded_with_epochs(tasks: TaskEpochs) -> list[StreamsGroupCurrentTasks]:
    recorded = []
    for subtopology in sorted(tasks):
        partitions = sorted(tasks[subtopology])
        epochs = [tasks[subtopology][partition] for partition in partitions]
        recorded.append(
            StreamsGroupCurrentTasks(subtopology_id=subtopology, partitions=partitions, assignment_epochs=epochs)
        )
    return recorded
