"""ConsumerGroupDescribe: state, members and assignments of consumer groups (KIP-848).

1  whether a member speaks the classic protocol (KIP-1099)
"""

from kwire.protocol.primitives import GroupId, TopicName, boolean, int8, int16, int32, string, uuid
from kwire.protocol.schema import field, frozen_struct, message, struct


@message(key=69, kind="request", versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[GroupId] = field("0+")
    include_authorized_operations: boolean = field("0+")


@struct
class ConsumerGroupDescribeTopicPartitions:
    topic_id: uuid = field("0+")
    topic_name: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@frozen_struct
class ConsumerGroupDescribeAssignment:
    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = field("0+")


@struct
class ConsumerGroupDescribeMember:
    member_id: string = field("0+")
    instance_id: string | None = field("0+", nullable="0+", default=None)
    rack_id: string | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    client_id: string = field("0+")
    client_host: string = field("0+")
    subscribed_topic_names: list[TopicName] = field("0+")
    subscribed_topic_regex: string | None = field("0+", nullable="0+", default=None)
    assignment: ConsumerGroupDescribeAssignment = field("0+")
    target_assignment: ConsumerGroupDescribeAssignment = field("0+")
    member_type: int8 = field("1+", default=-1, ignorable=True)
    """-1 unknown, 0 classic protocol, 1 consumer protocol."""


@struct
class ConsumerGroupDescribeGroup:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+", default=None)
    group_id: GroupId = field("0+")
    group_state: string = field("0+")
    group_epoch: int32 = field("0+")
    assignment_epoch: int32 = field("0+")
    assignor_name: string = field("0+")
    members: list[ConsumerGroupDescribeMember] = field("0+")
    authorized_operations: int32 = field("0+", default=-0x80000000)
    """Bit set of operations; the default means that they were not requested."""


@message(key=69, kind="response", versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int32 = field("0+")
    groups: list[ConsumerGroupDescribeGroup] = field("0+")
