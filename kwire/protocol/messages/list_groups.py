"""ListGroups: the groups that this broker coordinates.

1  throttle time
3  flexible
4  states, and a filter by state (KIP-518)
5  types, and a filter by type (KIP-848)
"""

from kwire.protocol.primitives import GroupId, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=16, kind="request", versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[string] = field("4+")
    types_filter: list[string] = field("5+")


@struct
class ListedGroup:
    group_id: GroupId = field("0+")
    protocol_type: string = field("0+")
    group_state: string = field("4+", ignorable=True)
    group_type: string = field("5+", ignorable=True)


@message(key=16, kind="response", versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    groups: list[ListedGroup] = field("0+")
