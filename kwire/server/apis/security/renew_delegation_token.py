"""RenewDelegationToken: extend the lifetime of a token, up to its maximum (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kwire.server.apis.security.token_requests import check_allowed, time_of_rejected
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext


async def handle_renew_delegation_token(
    request: RenewDelegationTokenRequest, context: ControllerContext
) -> RenewDelegationTokenResponse:
    check_allowed(context)
    expiry_ms = await context.services.delegation_tokens.renew(
        bytes(request.hmac), context.connection.principal, request.renew_period_ms
    )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def reject(request: RenewDelegationTokenRequest, error: KafkaError) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=time_of_rejected(error))


API = Api(
    request=RenewDelegationTokenRequest, response=RenewDelegationTokenResponse, handle=handle_renew_delegation_token
)
_FORWARDED = forwarded(API, reject)


async def handle_renew_at_broker(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    """Forward a request whose connection passes the check, which only this broker can make."""
    try:
        check_allowed(context)
    except KafkaError as error:
        return reject(request, error)
    response: RenewDelegationTokenResponse = await _FORWARDED.handle(request, context)
    return response


AT_BROKER = API.served_by(handle_renew_at_broker)
