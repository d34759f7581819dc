"""JoinGroup: join a classic group, or its next generation. The response waits until the generation is complete."""

from __future__ import annotations

from kwire.coordinator.answers import Answer, when_answered
from kwire.coordinator.group.classic.joining import rejected_join
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.server.apis.groups.client import client_of
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

PROTOCOL_NAME_MAY_BE_NULL_SINCE = 7


def handle_join_group(request: JoinGroupRequest, context: RequestContext) -> Answer[JoinGroupResponse]:
    if not context.allows_group(request.group_id):
        return _for_version(rejected_join(ErrorCode.GROUP_AUTHORIZATION_FAILED), context)
    answer = context.services.groups.join(request, client_of(context), version=context.version)
    return when_answered(answer, lambda response: _for_version(response, context))


def _for_version(response: JoinGroupResponse, context: RequestContext) -> JoinGroupResponse:
    """Replace an empty protocol name: by null in versions that allow it, else by an empty string."""
    if not response.protocol_name:
        response.protocol_name = None if context.version >= PROTOCOL_NAME_MAY_BE_NULL_SINCE else ""
    return response


API = Api(
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    handle=handle_join_group,
    elements_of=lambda response: len(response.members),
)
