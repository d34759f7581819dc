"""SyncGroup: send the leader's assignment to the coordinator, and return each member's own part.

1  throttle time
3  group.instance.id (KIP-345)
4  flexible
5  protocol type and name, for validation (KIP-559)
"""

from kwire.protocol.primitives import GroupId, bytes_, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: string = field("0+")
    assignment: bytes_ = field("0+")


@message(key=14, kind="request", versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: GroupId = field("0+")
    generation_id: int32 = field("0+")
    member_id: string = field("0+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None)
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field("0+")


@message(key=14, kind="response", versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    protocol_type: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes_ = field("0+")
