"""LeaveGroup: remove members from a classic group. Up to version 2 there is one, and its result is the response's."""

from __future__ import annotations

from kwire.chunks import Pieces, chunks
from kwire.coordinator.answers import Answer, when_answered, when_many_answered
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

MANY_MEMBERS_SINCE = 3
LEAVE_AT_ONCE = 512
"""Members that are removed in one step of the event loop."""


def handle_leave_group(
    request: LeaveGroupRequest, context: RequestContext
) -> Answer[LeaveGroupResponse] | Pieces[Answer[LeaveGroupResponse]]:
    if not context.allows_group(request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = context.services.groups
    if context.version >= MANY_MEMBERS_SINCE:
        if len(request.members) > LEAVE_AT_ONCE:
            return _in_pieces(request, context)
        return groups.leave(request.group_id, request.members)
    only = [MemberIdentity(member_id=request.member_id)]
    return when_answered(groups.leave(request.group_id, only), _of_one)


def _in_pieces(request: LeaveGroupRequest, context: RequestContext) -> Pieces[Answer[LeaveGroupResponse]]:
    """Remove the members in steps: the response has a code for each."""
    answers = []
    for some in chunks(request.members, LEAVE_AT_ONCE):
        answers.append(context.services.groups.leave(request.group_id, some))
        yield
    return (yield from when_many_answered(answers, _joined))


def _joined(parts: list[LeaveGroupResponse]) -> Pieces[LeaveGroupResponse]:
    """Return one response of several; an error of one part is that of the group, and has no members."""
    response = LeaveGroupResponse()
    for part in parts:
        if part.error_code:
            return LeaveGroupResponse(error_code=part.error_code)
        response.members += part.members
        yield
    return response


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    code = response.error_code or response.members[0].error_code
    return LeaveGroupResponse(error_code=code)


API = Api(request=LeaveGroupRequest, response=LeaveGroupResponse, handle=handle_leave_group)
