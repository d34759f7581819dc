"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848)."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.coordinator.answers import Answer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.server.apis.groups.client import client_of
from kwire.server.apis.groups.subscriptions import with_subscription
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Answer[ConsumerGroupHeartbeatResponse] | Pieces[Answer[ConsumerGroupHeartbeatResponse]]:
    if not context.services.groups.has_consumer_groups():
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = context.services.groups
    return with_subscription(
        context,
        request.subscribed_topic_names,
        ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        lambda: groups.heartbeat_of_consumer_group(request, client_of(context), version=context.version),
    )


API = Api(
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    handle=handle_consumer_group_heartbeat,
)
