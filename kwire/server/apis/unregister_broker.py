"""UnregisterBroker: forget a broker that is gone for good (KIP-631). The only broker cannot be gone: it is kept."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    if not context.allows_cluster():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=code.meaning)
    if request.broker_id not in context.services.image.brokers:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"Broker {request.broker_id} is the only one of this cluster",
    )


API = Api(request=UnregisterBrokerRequest, response=UnregisterBrokerResponse, handle=handle)
