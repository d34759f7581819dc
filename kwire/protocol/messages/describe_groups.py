"""DescribeGroups: state, members and assignments of classic groups.

1  throttle time
3  authorised operations (KIP-430)
4  group.instance.id (KIP-345)
5  flexible
6  GROUP_ID_NOT_FOUND in place of a dead group, and an error message (KIP-1043)
"""

from kwire.protocol.primitives import GroupId, boolean, bytes_, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=15, kind="request", versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[GroupId] = field("0+")
    include_authorized_operations: boolean = field("3+")


@struct
class DescribedGroupMember:
    member_id: string = field("0+")
    group_instance_id: string | None = field("4+", nullable="4+", default=None, ignorable=True)
    client_id: string = field("0+")
    client_host: string = field("0+")
    member_metadata: bytes_ = field("0+")
    member_assignment: bytes_ = field("0+")


@struct
class DescribeGroupsDescribedGroup:
    error_code: int16 = field("0+")
    error_message: string | None = field("6+", nullable="6+", default=None)
    group_id: GroupId = field("0+")
    group_state: string = field("0+")
    protocol_type: string = field("0+")
    protocol_data: string = field("0+")
    members: list[DescribedGroupMember] = field("0+")
    authorized_operations: int32 = field("3+", default=-0x80000000)


@message(key=15, kind="response", versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    groups: list[DescribeGroupsDescribedGroup] = field("0+")
