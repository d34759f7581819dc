"""Replay of a share group's records; a value creates what it names, and a tombstone of something unknown is ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from kwire.coordinator.group.share.partition_states import PartitionStates, TopicsById, TopicStates
from kwire.coordinator.group.share.share_group import LEAVE_EPOCH, ShareGroup, ShareMember
from kwire.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStatePartitions,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

NO_TARGET_EPOCH = -1


def _replay_metadata(
    group: ShareGroup, _key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None, _now_ms: int
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        return
    assert group.is_empty, f"{group.group_id} is deleted with {len(group.members)} members"
    assert not group.target.by_member, f"{group.group_id} is deleted with targets"
    assert group.target.epoch == NO_TARGET_EPOCH, f"{group.group_id} is deleted with the metadata of its target"


def _replay_member(
    group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None, _now_ms: int
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member(
            dataclasses.replace(
                member or ShareMember(member_id=key.member_id),
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                subscribed_topic_names=frozenset(value.subscribed_topic_names),
            )
        )
    elif member is not None:
        assert member.member_epoch == LEAVE_EPOCH, f"member {key.member_id} is removed at {member.member_epoch}"
        assert key.member_id not in group.target.by_member, f"member {key.member_id} is removed with a target"
        group.remove_member(key.member_id)


def _replay_target_metadata(
    group: ShareGroup,
    _key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
    _now_ms: int,
) -> None:
    if value is not None:
        group.target.replace_metadata(value.assignment_epoch, value.assignment_timestamp)
        return
    assert not group.target.by_member, f"the target of {group.group_id} is removed with members"
    group.target.replace_metadata(NO_TARGET_EPOCH, 0)


def _replay_target(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
    _now_ms: int,
) -> None:
    if value is None:
        group.target.remove(key.member_id)
        return
    partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}
    group.target.put(key.member_id, partitions)


def _replay_assignment(
    group: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
    _now_ms: int,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member(
            dataclasses.replace(
                member or ShareMember(member_id=key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned_partitions={
                    topic.topic_id: frozenset(topic.partitions)
                    for topic in value.assigned_partitions
                    if topic.partitions
                },
            )
        )
    elif member is not None:
        group.put_member(member.without_assignment())


def _replay_states(
    group: ShareGroup,
    _key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
    now_ms: int,
) -> None:
    if value is None:
        group.states = PartitionStates()
        return
    group.states = PartitionStates(
        _states(value.initializing_topics, now_ms),
        _states(value.initialized_topics, now_ms),
        frozenset(topic.topic_id for topic in value.deleting_topics),
    )


def _states(topics: Iterable[ShareGroupStatePartitions], now_ms: int) -> TopicsById:
    return {topic.topic_id: TopicStates(topic.topic_name, frozenset(topic.partitions), now_ms) for topic in topics}


REPLAY: dict[type, Callable[[ShareGroup, Any, Any, int], None]] = {
    ShareGroupMetadataKey: _replay_metadata,
    ShareGroupMemberMetadataKey: _replay_member,
    ShareGroupTargetAssignmentMetadataKey: _replay_target_metadata,
    ShareGroupTargetAssignmentMemberKey: _replay_target,
    ShareGroupCurrentMemberAssignmentKey: _replay_assignment,
    ShareGroupStatePartitionMetadataKey: _replay_states,
}
"""Function by the type of a record's key. A ShareGroupMetadataKey with a null value removes the group."""
