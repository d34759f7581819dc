"""RenewDelegationToken: rejected, because tokens need authentication, which no listener has (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

NEVER = -1


def handle_renew_delegation_token(
    request: RenewDelegationTokenRequest, context: NodeContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NEVER
    )


API = Api(
    request=RenewDelegationTokenRequest, response=RenewDelegationTokenResponse, handle=handle_renew_delegation_token
)
