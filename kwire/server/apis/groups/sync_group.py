"""SyncGroup: store the assignments of the group's leader, and return each member its assignment when they are there."""

from __future__ import annotations

from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

PROTOCOL_GIVEN_SINCE = 5


def handle_sync_group(request: SyncGroupRequest, context: RequestContext) -> Answer[SyncGroupResponse]:
    if not context.allows_group(request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.version >= PROTOCOL_GIVEN_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # KIP-559
    return context.services.groups.sync(request)


API = Api(request=SyncGroupRequest, response=SyncGroupResponse, handle=handle_sync_group)
