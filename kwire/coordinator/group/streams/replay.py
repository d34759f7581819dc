"""Replay of a streams group's records.

Kafka's rules for records that are left alone by compaction apply: a value creates the group and the member that it
names, and a tombstone of something unknown is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.coordinator.group.streams.member import LEAVE_EPOCH, StreamsMember, replayed_tasks
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.tasks import Tasks
from kwire.coordinator.group.streams.topology import WrittenTopology
from kwire.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

NO_TARGET_EPOCH = -1


def _replay_metadata(
    group: StreamsGroup,
    _key: StreamsGroupMetadataKey,
    value: StreamsGroupMetadataValue | None,
    _written: WrittenTopology,
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
        return
    assert group.is_empty, f"{group.group_id} is deleted with {len(group.members)} members"
    assert group.target_epoch == NO_TARGET_EPOCH, f"{group.group_id} is deleted with the metadata of its target"


def _replay_topology(
    group: StreamsGroup,
    _key: StreamsGroupTopologyKey,
    value: StreamsGroupTopologyValue | None,
    written: WrittenTopology,
) -> None:
    group.topology = None if value is None else written.replayed(value)


def _replay_member(
    group: StreamsGroup,
    key: StreamsGroupMemberMetadataKey,
    value: StreamsGroupMemberMetadataValue | None,
    _written: WrittenTopology,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member((member or StreamsMember(member_id=key.member_id)).with_metadata(value))
    elif member is not None:
        assert member.member_epoch == LEAVE_EPOCH, f"member {key.member_id} is removed at {member.member_epoch}"
        assert key.member_id not in group.targets, f"member {key.member_id} is removed with a target"
        group.remove_member(key.member_id)


def _replay_target_metadata(
    group: StreamsGroup,
    _key: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
    _written: WrittenTopology,
) -> None:
    if value is not None:
        group.replace_target_metadata(value.assignment_epoch, value.assignment_timestamp)
        return
    assert not group.targets, f"the target of {group.group_id} is removed with members"
    group.replace_target_metadata(NO_TARGET_EPOCH, 0)


def _replay_target(
    group: StreamsGroup,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
    _written: WrittenTopology,
) -> None:
    if value is None:
        group.remove_target(key.member_id)
        return
    tasks = Tasks(
        replayed_tasks(value.active_tasks), replayed_tasks(value.standby_tasks), replayed_tasks(value.warmup_tasks)
    )
    group.put_target(key.member_id, tasks)


def _replay_assignment(
    group: StreamsGroup,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
    _written: WrittenTopology,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member((member or StreamsMember(member_id=key.member_id)).with_recorded_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())


REPLAY: dict[type, Callable[[StreamsGroup, Any, Any, WrittenTopology], None]] = {
    StreamsGroupMetadataKey: _replay_metadata,
    StreamsGroupTopologyKey: _replay_topology,
    StreamsGroupMemberMetadataKey: _replay_member,
    StreamsGroupTargetAssignmentMetadataKey: _replay_target_metadata,
    StreamsGroupTargetAssignmentMemberKey: _replay_target,
    StreamsGroupCurrentMemberAssignmentKey: _replay_assignment,
}
"""Function by the type of a record's key. A StreamsGroupMetadataKey with a null value removes the group."""
