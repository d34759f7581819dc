"""InitProducerId: an id and epoch for a producer that wants idempotence (KIP-98, KIP-360).

Transactional ids have no coordinator here yet: such a request is answered with COORDINATOR_NOT_AVAILABLE, after its
timeout was checked.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.server.authorization import ResourceType
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    code = _refusal(request, context)
    if code is not ErrorCode.NONE:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    return _new_producer(context)


def _refusal(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is not None and not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if transactional_id is None and not context.allows_cluster():
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == -1) != (request.producer_epoch == -1) and context.version >= 3:
        return ErrorCode.INVALID_REQUEST
    if transactional_id is None:
        return ErrorCode.NONE
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= context.services.config["transaction.max.timeout.ms"]:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _new_producer(context: RequestContext) -> InitProducerIdResponse:
    """An idempotent producer always gets a new id: its old sequence numbers then cannot matter."""
    producer_id = await context.services.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


API = Api(request=InitProducerIdRequest, response=InitProducerIdResponse, handle=handle, stable_max=5)
