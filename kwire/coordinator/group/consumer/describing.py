"""ConsumerGroupDescribe: a consumer group with its members, their assignments and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from uuid import UUID

from kwire.chunks import Pieces, mapped
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.any_group import AnyGroup
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.modern.target_assignment import Partitions
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described_consumer_group(
    group_id: str, group: AnyGroup | None, image: MetadataImage, default_assignor: str
) -> Pieces[ConsumerGroupDescribeGroup]:
    """Describe a group as it is now; one that is missing or of another kind is GROUP_ID_NOT_FOUND."""
    if group is None:
        return rejected_consumer_description(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} is not a consumer group."
        return rejected_consumer_description(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
    described = ConsumerGroupDescribeGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target.epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
    )
    members = [(member, group.target.of(member.member_id)) for member in group.members.values()]
    described.members = yield from mapped(members, partial(_described_member, image))
    return described


def rejected_consumer_description(
    group_id: str, code: ErrorCode, message: str | None = None
) -> ConsumerGroupDescribeGroup:
    return ConsumerGroupDescribeGroup(group_id=group_id, error_code=code, error_message=message)


def _described_member(
    image: MetadataImage, member_and_target: tuple[ConsumerMember, Partitions]
) -> ConsumerGroupDescribeMember:
    member, target = member_and_target
    # A member is responsible for partitions until it has revoked them.
    held = {topic_id: list(epochs) for topic_id, epochs in member.assigned_partitions.items()}
    for topic_id, epochs in member.partitions_pending_revocation.items():
        held.setdefault(topic_id, []).extend(epochs)
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_described_partitions(held, image),
        target_assignment=_described_partitions(target, image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _described_partitions(
    partitions: Mapping[UUID, Iterable[int]], image: MetadataImage
) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (name := image.topic_names.get(topic_id)) is not None
        ]
    )
