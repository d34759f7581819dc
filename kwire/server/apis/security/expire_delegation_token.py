"""ExpireDelegationToken: rejected, because tokens need authentication, which no listener has (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

NEVER = -1


def handle_expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: NodeContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NEVER
    )


API = Api(
    request=ExpireDelegationTokenRequest, response=ExpireDelegationTokenResponse, handle=handle_expire_delegation_token
)
