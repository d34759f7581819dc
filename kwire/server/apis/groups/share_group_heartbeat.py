"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932)."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.server.apis.groups.client import client_of
from kwire.server.apis.groups.subscriptions import with_subscription
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.sharing.requested import MEMBER_ID_CHARACTERS_MAX


def handle_share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Answer[ShareGroupHeartbeatResponse] | Pieces[Answer[ShareGroupHeartbeatResponse]]:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(request.group_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(request.member_id) <= MEMBER_ID_CHARACTERS_MAX:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
    groups = context.services.groups
    return with_subscription(
        context,
        request.subscribed_topic_names,
        ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        lambda: groups.share.heartbeat(request, client_of(context)),
    )


API = Api(request=ShareGroupHeartbeatRequest, response=ShareGroupHeartbeatResponse, handle=handle_share_group_heartbeat)
