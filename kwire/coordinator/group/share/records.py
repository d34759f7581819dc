"""Records that describe a share group in __consumer_offsets: created from its state."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kwire.coordinator.group.modern.target_assignment import Partitions
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.share.partition_states import PartitionStates, TopicsById
from kwire.coordinator.group.share.share_group import ShareGroup, ShareMember
from kwire.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupCurrentPartitions,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStatePartitions,
    ShareGroupStateTopic,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetPartitions,
)

STABLE = 0


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        ),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def target_record(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                ShareGroupTargetPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in partitions.items()
            ]
        ),
    )


def target_metadata_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def assignment_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=STABLE,
            assigned_partitions=[
                ShareGroupCurrentPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned_partitions.items()
            ],
        ),
    )


def states_record(group_id: str, states: PartitionStates, deleting: Mapping[UUID, str]) -> GroupRecord:
    return GroupRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_recorded(states.initializing),
            initialized_topics=_recorded(states.initialized),
            deleting_topics=[
                ShareGroupStateTopic(topic_id=topic_id, topic_name=name) for topic_id, name in deleting.items()
            ],
        ),
    )


def _recorded(topics: TopicsById) -> list[ShareGroupStatePartitions]:
    return [
        ShareGroupStatePartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return [
        GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[GroupRecord]:
    """Return tombstones of everything that is stored of a group."""
    group_id = group.group_id
    members = [record for member_id in group.members for record in member_tombstones(group_id, member_id)]
    return [
        *members,
        GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]
