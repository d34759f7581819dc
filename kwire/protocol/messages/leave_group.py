"""LeaveGroup: remove members from a classic group at once, without waiting for the session timeout.

1  throttle time
3  many members at once, also by group.instance.id (KIP-345)
4  flexible
5  reason (KIP-800)
"""

from kwire.protocol.primitives import GroupId, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class MemberIdentity:
    member_id: string = field("3+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    reason: string | None = field("5+", nullable="5+", default=None, ignorable=True)


@message(key=13, kind="request", versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: GroupId = field("0+")
    member_id: string = field("0-2")
    members: list[MemberIdentity] = field("3+")


@struct
class MemberResponse:
    member_id: string = field("3+")
    group_instance_id: string | None = field("3+", nullable="3+")
    error_code: int16 = field("3+")


@message(key=13, kind="response", versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    members: list[MemberResponse] = field("3+")
