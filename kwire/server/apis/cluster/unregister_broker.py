"""UnregisterBroker: remove a broker that will not come back (KIP-631). The only broker of a cluster is kept."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import ControllerContext


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, context: ControllerContext
) -> UnregisterBrokerResponse:
    try:
        if not context.allows_cluster():
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        await context.services.brokers.unregister_broker(request.broker_id)
    except KafkaError as error:
        return reject(request, error)
    return UnregisterBrokerResponse()


def reject(request: UnregisterBrokerRequest, error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(request=UnregisterBrokerRequest, response=UnregisterBrokerResponse, handle=handle_unregister_broker)
