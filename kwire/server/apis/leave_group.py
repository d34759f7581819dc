"""LeaveGroup: members leave a classic group at once. Up to version 2 it is one, and its outcome is the response's."""

from __future__ import annotations

from kwire.coordinator.answers import Answer, when_answered
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

MANY_MEMBERS_SINCE = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> Answer[LeaveGroupResponse]:
    if not context.allows_group(request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = context.services.groups
    if context.version >= MANY_MEMBERS_SINCE:
        return groups.leave(request.group_id, request.members)
    only = [MemberIdentity(member_id=request.member_id)]
    return when_answered(groups.leave(request.group_id, only), _of_one)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    code = response.error_code or response.members[0].error_code
    return LeaveGroupResponse(error_code=code)


API = Api(request=LeaveGroupRequest, response=LeaveGroupResponse, handle=handle)
