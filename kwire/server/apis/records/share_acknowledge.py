"""ShareAcknowledge: acknowledge records that a member of a share group has acquired (KIP-932)."""

from __future__ import annotations

import asyncio

from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.sharing.requested import rejection_of
from kwire.server.sharing.serving import share_acknowledge


def handle_share_acknowledge(
    request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse | asyncio.Future[ShareAcknowledgeResponse]:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if (error := rejection_of(request, context)) is not None:
        return ShareAcknowledgeResponse(error_code=error.code)
    return asyncio.ensure_future(share_acknowledge(request, context))


API = Api(
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
    handle=handle_share_acknowledge,
    elements_of=lambda response: sum(len(topic.partitions) for topic in response.responses),
)
