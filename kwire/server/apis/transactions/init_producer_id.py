"""InitProducerId: return an id and epoch for an idempotent or transactional producer (KIP-98, KIP-360)."""

from __future__ import annotations

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.coordinator.transaction.initialising import Producer
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kwire.server.apis.transactions.errors import code_for_version
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

FENCED_SINCE = 4


async def handle_init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        producer_id, epoch = await _initialise(request, context)
    except KafkaError as error:
        code = code_for_version(error.code, context.version >= FENCED_SINCE)
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


async def _initialise(request: InitProducerIdRequest, context: RequestContext) -> tuple[int, int]:
    services = context.services
    transactional_id = request.transactional_id
    if transactional_id is not None and not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if transactional_id is None and not (
        context.allows_cluster() or context.allows_to_any(Operation.WRITE, ResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        # An idempotent producer always gets a new id, so that its old sequence numbers do not matter.
        return await services.producer_ids.next(), 0
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    return await services.transactions.initialise(transactional_id, request.transaction_timeout_ms, expected)


API = Api(request=InitProducerIdRequest, response=InitProducerIdResponse, handle=handle_init_producer_id, stable_max=5)
