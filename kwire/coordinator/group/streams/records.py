"""Records that describe a streams group in __consumer_offsets: created from its state."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.group.streams.tasks import Tasks, TaskSets
from kwire.protocol.messages.streams_group_records import (
    StreamsGroupAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTargetTasks,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    return GroupRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), member.metadata_value()
    )


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> GroupRecord:
    return GroupRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def epoch_record(
    group_id: str, epoch: int, *, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> GroupRecord:
    return GroupRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[StreamsGroupAssignmentConfig(key=key, value=configs[key]) for key in configs],
        ),
    )


def target_record(group_id: str, member_id: str, tasks: Tasks) -> GroupRecord:
    return GroupRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_recorded(tasks.active),
            standby_tasks=_recorded(tasks.standby),
            warmup_tasks=_recorded(tasks.warmup),
        ),
    )


def target_metadata_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def assignment_record(group_id: str, member: StreamsMember) -> GroupRecord:
    return GroupRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        member.assignment_value(),
    )


def removal_records(group: StreamsGroup, member_id: str) -> list[GroupRecord]:
    """Return the records that remove a member, and bump the group epoch so that the others get its tasks."""
    group_id = group.group_id
    bumped = epoch_record(
        group_id,
        group.epoch + 1,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        configs=group.assignment_configs,
    )
    return [
        GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
        bumped,
    ]


def group_tombstones(group: StreamsGroup) -> list[GroupRecord]:
    """Return tombstones of everything that is stored of a group."""
    group_id, members = group.group_id, group.members
    return [
        *(
            GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each), None)
            for each in members
        ),
        *(
            GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each), None)
            for each in members
        ),
        GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each), None) for each in members),
        GroupRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        GroupRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _recorded(tasks: TaskSets) -> list[StreamsGroupTargetTasks]:
    return [
        StreamsGroupTargetTasks(subtopology_id=subtopology, partitions=sorted(tasks[subtopology]))
        for subtopology in sorted(tasks)
    ]
