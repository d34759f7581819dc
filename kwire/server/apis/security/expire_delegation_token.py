"""ExpireDelegationToken: change when a token expires, or remove it at once (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kwire.server.apis.security.token_requests import check_allowed, time_of_rejected
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext


async def handle_expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: ControllerContext
) -> ExpireDelegationTokenResponse:
    check_allowed(context)
    expiry_ms = await context.services.delegation_tokens.expire(
        bytes(request.hmac), context.connection.principal, request.expiry_time_period_ms
    )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def reject(request: ExpireDelegationTokenRequest, error: KafkaError) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=time_of_rejected(error))


API = Api(
    request=ExpireDelegationTokenRequest, response=ExpireDelegationTokenResponse, handle=handle_expire_delegation_token
)
_FORWARDED = forwarded(API, reject)


async def handle_expire_at_broker(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """Forward a request whose connection passes the check, which only this broker can make."""
    try:
        check_allowed(context)
    except KafkaError as error:
        return reject(request, error)
    response: ExpireDelegationTokenResponse = await _FORWARDED.handle(request, context)
    return response


AT_BROKER = API.served_by(handle_expire_at_broker)
