"""ShareGroupDescribe: a share group with its members and their partitions."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped
from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.share.share_group import ASSIGNOR, ShareGroup, ShareMember
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeGroup,
    ShareGroupDescribeMember,
    ShareGroupDescribeTopicPartitions,
)


def described_share_group(group: ShareGroup, image: MetadataImage) -> Pieces[ShareGroupDescribeGroup]:
    """Describe a group as it is now."""
    described = ShareGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target.epoch,
        assignor_name=ASSIGNOR,
    )
    described.members = yield from mapped(list(group.members.values()), partial(_described_member, image))
    return described


def rejected_share_description(group_id: str, code: ErrorCode, message: str | None = None) -> ShareGroupDescribeGroup:
    return ShareGroupDescribeGroup(group_id=group_id, error_code=code, error_message=message)


def _described_member(image: MetadataImage, member: ShareMember) -> ShareGroupDescribeMember:
    return ShareGroupDescribeMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=ShareGroupDescribeAssignment(
            topic_partitions=[
                ShareGroupDescribeTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                for topic_id, indexes in member.assigned_partitions.items()
                if (name := image.topic_names.get(topic_id)) is not None
            ]
        ),
    )
