"""Heartbeat: keep a classic group member's session; the response reports if it must rejoin.

1  throttle time
3  group.instance.id (KIP-345)
4  flexible
"""

from kwire.protocol.primitives import GroupId, int16, int32, string
from kwire.protocol.schema import field, message


@message(key=12, kind="request", versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: GroupId = field("0+")
    generation_id: int32 = field("0+")
    member_id: string = field("0+")
    group_instance_id: string | None = field("3+", nullable="3+", default=None)


@message(key=12, kind="response", versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
