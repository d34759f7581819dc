"""DeleteGroups: delete empty groups and their committed offsets (KIP-229).

2  flexible
"""

from kwire.protocol.primitives import GroupId, int16, int32
from kwire.protocol.schema import field, message, struct


@message(key=42, kind="request", versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[GroupId] = field("0+")


@struct
class DeletableGroupResult:
    group_id: GroupId = field("0+")
    error_code: int16 = field("0+")


@message(key=42, kind="response", versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")
