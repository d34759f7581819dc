"""ShareGroupDescribe: state, members and assignments of share groups (KIP-932)."""

from kwire.protocol.primitives import GroupId, TopicName, boolean, int16, int32, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@message(key=77, kind="request", versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    group_ids: list[GroupId] = field("0+")
    include_authorized_operations: boolean = field("0+")


@struct
class ShareGroupDescribeTopicPartitions:
    topic_id: uuid = field("0+")
    topic_name: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@frozen_struct
class ShareGroupDescribeAssignment:
    topic_partitions: list[ShareGroupDescribeTopicPartitions] = field("0+")


@struct
class ShareGroupDescribeMember:
    member_id: string = field("0+")
    rack_id: string | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    client_id: string = field("0+")
    client_host: string = field("0+")
    subscribed_topic_names: list[TopicName] = field("0+")
    assignment: ShareGroupDescribeAssignment = field("0+")


@struct
class ShareGroupDescribeGroup:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    group_id: GroupId = field("0+")
    group_state: string = field("0+")
    group_epoch: int32 = field("0+")
    assignment_epoch: int32 = field("0+")
    assignor_name: string = field("0+")
    members: list[ShareGroupDescribeMember] = field("0+")
    authorized_operations: int32 = field("0+", default=-0x80000000)
    """Bit set of operations; the default means that they were not requested."""


@message(key=77, kind="response", versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    throttle_time_ms: int32 = field("0+")
    groups: list[ShareGroupDescribeGroup] = field("0+")
