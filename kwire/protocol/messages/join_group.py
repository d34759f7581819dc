"""JoinGroup: join a classic group, or a new generation of it. The response waits until the generation is complete.

1  rebalance timeout (KIP-62)
2  throttle time
4  a new member first receives its id, with MEMBER_ID_REQUIRED (KIP-394)
5  group.instance.id (KIP-345)
6  flexible
7  protocol type in the response (KIP-559)
8  reason (KIP-800)
9  a restarted static leader may skip the assignment (KIP-814)
"""

from kwire.protocol.primitives import GroupId, boolean, bytes_, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class JoinGroupRequestProtocol:
    name: string = field("0+")
    metadata: bytes_ = field("0+")


@message(key=11, kind="request", versions="0-9", flexible="6+", elements_max=1000)
class JoinGroupRequest:
    group_id: GroupId = field("0+")
    session_timeout_ms: int32 = field("0+")
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("0+")
    group_instance_id: string | None = field("5+", nullable="5+", default=None)
    protocol_type: string = field("0+")
    protocols: list[JoinGroupRequestProtocol] = field("0+")
    reason: string | None = field("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: string = field("0+")
    group_instance_id: string | None = field("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes_ = field("0+")


@message(key=11, kind="response", versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int32 = field("2+", ignorable=True)
    error_code: int16 = field("0+")
    generation_id: int32 = field("0+", default=-1)
    protocol_type: string | None = field("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: string | None = field("0+", nullable="7+")
    leader: string = field("0+")
    skip_assignment: boolean = field("9+")
    member_id: string = field("0+")
    members: list[JoinGroupResponseMember] = field("0+")
