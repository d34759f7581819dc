"""ShareFetch: acquire records for a member of a share group, and acknowledge others (KIP-932).

The package kwire.server.sharing contains the share partitions, the sessions, and the wait for records.
"""

from __future__ import annotations

import asyncio

from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.sharing.requested import rejection_of
from kwire.server.sharing.serving import share_fetch


def handle_share_fetch(
    request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse | asyncio.Future[ShareFetchResponse]:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if (error := rejection_of(request, context)) is not None:
        return ShareFetchResponse(error_code=error.code)
    if request.is_renew_ack and any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    return asyncio.ensure_future(share_fetch(request, context))


API = Api(
    request=ShareFetchRequest,
    response=ShareFetchResponse,
    handle=handle_share_fetch,
    elements_of=lambda response: sum(
        1 + len(partition.acquired_records) for topic in response.responses for partition in topic.partitions
    ),
)
