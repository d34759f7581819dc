"""EndTxn: commit or abort a transaction; from version 5 on the producer continues with the next epoch (KIP-890)."""

from __future__ import annotations

from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.answers import Answer
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.server.apis.transactions.errors import code_for_version, rejecting
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

FENCED_SINCE = 2
NEXT_EPOCH_SINCE = 5


def handle_end_txn(request: EndTxnRequest, context: RequestContext) -> Answer[EndTxnResponse]:
    def reject(error: KafkaError) -> EndTxnResponse:
        return EndTxnResponse(error_code=code_for_version(error.code, context.version >= FENCED_SINCE))

    if not context.allows(ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return reject(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    return rejecting(
        lambda: context.services.transactions.end(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=EPOCH_PER_TRANSACTION if context.version >= NEXT_EPOCH_SINCE else CLASSIC,
        ),
        lambda producer: EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch),
        reject,
    )


API = Api(request=EndTxnRequest, response=EndTxnResponse, handle=handle_end_txn)
