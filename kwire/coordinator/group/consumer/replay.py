"""Replay of a consumer group's records.

Kafka's rules for records that are left alone by compaction apply: a value creates the group and the member that it
names, and a tombstone of something unknown is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from kwire.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember
from kwire.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NO_TARGET_EPOCH = -1


def _replay_metadata(
    group: ConsumerGroup, _key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        return
    assert group.is_empty, f"{group.group_id} is deleted with {len(group.members)} members"
    assert not group.target.by_member, f"{group.group_id} is deleted with targets"
    assert group.target.epoch == NO_TARGET_EPOCH, f"{group.group_id} is deleted with the metadata of its target"


def _replay_old_metadata(
    group: ConsumerGroup, _key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    group.has_old_metadata_record = value is not None


def _replay_member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member((member or ConsumerMember(member_id=key.member_id)).with_metadata(value))
    elif member is not None:
        assert member.member_epoch == LEAVE_EPOCH, f"member {key.member_id} is removed at {member.member_epoch}"
        assert key.member_id not in group.target.by_member, f"member {key.member_id} is removed with a target"
        group.remove_member(key.member_id)


def _replay_target_metadata(
    group: ConsumerGroup,
    _key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is not None:
        group.replace_target_metadata(value.assignment_epoch, value.assignment_timestamp)
        return
    assert not group.target.by_member, f"the target of {group.group_id} is removed with members"
    group.replace_target_metadata(NO_TARGET_EPOCH, 0)


def _replay_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.remove(key.member_id)
        return
    partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}
    group.target.put(key.member_id, partitions)


def _replay_assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member((member or ConsumerMember(member_id=key.member_id)).with_recorded_assignment(value))
    elif member is not None:
        group.put_member(member.without_assignment())


def _replay_regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    if value is None:
        group.remove_resolved(key.regular_expression)
        return
    group.put_resolved(key.regular_expression, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp))


REPLAY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: _replay_metadata,
    ConsumerGroupPartitionMetadataKey: _replay_old_metadata,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_assignment,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
"""Function by the type of a record's key. A ConsumerGroupMetadataKey with a null value removes the group."""
