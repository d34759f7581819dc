"""RenewDelegationToken: extend the lifetime of a token, up to its maximum (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kwire.server.apis.security.token_requests import at_broker, check_allowed, time_of_rejected
from kwire.server.requests.api import Api
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
AT_BROKER = at_broker(API, reject)
