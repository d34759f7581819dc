"""Records that describe a consumer group in __consumer_offsets: created from its state."""

from __future__ import annotations

from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from kwire.coordinator.group.consumer.member import ConsumerMember, assignment_key, metadata_key
from kwire.coordinator.group.modern.target_assignment import Partitions
from kwire.coordinator.group.records import GroupRecord
from kwire.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetPartitions,
)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(metadata_key(group_id, member.member_id), member.metadata_value())


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_record(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                ConsumerGroupTargetPartitions(topic_id=topic_id, partitions=sorted(indexes))
                for topic_id, indexes in partitions.items()
            ]
        ),
    )


def target_metadata_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def assignment_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(assignment_key(group_id, member.member_id), member.assignment_value())


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def old_metadata_tombstone(group_id: str) -> GroupRecord:
    """Remove the topic metadata that Kafka stored before 4.1."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    return [
        GroupRecord(assignment_key(group_id, member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(metadata_key(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, renamed: tuple[str, str] | None = None) -> list[GroupRecord]:
    """Return tombstones of everything that is stored of a group.

    `renamed` is (old member id, new member id) if earlier records of the same batch have replaced a static member.
    """
    group_id = group.group_id
    member_ids = [renamed[1] if renamed is not None and each == renamed[0] else each for each in group.members]
    return [
        *(GroupRecord(assignment_key(group_id, each), None) for each in member_ids),
        *(
            GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each), None)
            for each in member_ids
        ),
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(GroupRecord(metadata_key(group_id, each), None) for each in member_ids),
        *(regex_tombstone(group_id, each) for each in group.resolved),
        old_metadata_tombstone(group_id),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def group_records(group: ConsumerGroup) -> list[GroupRecord]:
    """Return everything that is stored of a group: for a classic group that becomes a consumer group."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(target_record(group_id, member.member_id, group.target.of(member.member_id)) for member in members),
        target_metadata_record(group_id, group.target.epoch, group.target.timestamp_ms),
        *(assignment_record(group_id, member) for member in members),
    ]
