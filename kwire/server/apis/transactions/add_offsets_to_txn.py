"""AddOffsetsToTxn: add a group's partition of __consumer_offsets to a transaction that commits the group's offsets."""

from __future__ import annotations

from kwire.cluster.security.acls import ResourceType
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC
from kwire.coordinator.answers import Answer
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.server.apis.transactions.errors import code_for_version, rejecting
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

FENCED_SINCE = 2


def handle_add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> Answer[AddOffsetsToTxnResponse]:
    def reject(error: KafkaError) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code_for_version(error.code, context.version >= FENCED_SINCE))

    def add() -> Answer[None]:
        if not context.allows(ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not context.allows_group(request.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        services = context.services
        if GROUP_OFFSETS_TOPIC not in services.image.topics:
            return _create_and_add(request, context)
        return _add(request, context)

    return rejecting(add, lambda _: AddOffsetsToTxnResponse(), reject)


async def _create_and_add(request: AddOffsetsToTxnRequest, context: RequestContext) -> None:
    await context.services.topic_creator.create([GROUP_OFFSETS_TOPIC])
    answer = _add(request, context)
    if answer is not None:
        await answer


def _add(request: AddOffsetsToTxnRequest, context: RequestContext) -> Answer[None]:
    services = context.services
    return services.transactions.add(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [(GROUP_OFFSETS_TOPIC, services.groups.partition_for(request.group_id))],
        client_version=CLASSIC,
    )


API = Api(request=AddOffsetsToTxnRequest, response=AddOffsetsToTxnResponse, handle=handle_add_offsets_to_txn)
