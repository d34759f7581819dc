"""Heartbeat: keep a member of a classic group alive; the response says if the member has to rejoin."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    if not context.allows_group(request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return context.services.groups.heartbeat(request)


API = Api(request=HeartbeatRequest, response=HeartbeatResponse, handle=handle_heartbeat)
