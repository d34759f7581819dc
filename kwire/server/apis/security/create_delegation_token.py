"""CreateDelegationToken: rejected, because tokens need authentication, which no listener has (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

NEVER = -1
OWNERS_SINCE = 3


def handle_create_delegation_token(
    request: CreateDelegationTokenRequest, context: NodeContext
) -> CreateDelegationTokenResponse:
    kind, _, name = context.connection.principal.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NEVER,
        expiry_timestamp_ms=NEVER,
        max_timestamp_ms=NEVER,
    )
    if context.version >= OWNERS_SINCE:
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
        if request.owner_principal_name:
            response.principal_type = request.owner_principal_type or ""
            response.principal_name = request.owner_principal_name
    return response


API = Api(
    request=CreateDelegationTokenRequest, response=CreateDelegationTokenResponse, handle=handle_create_delegation_token
)
