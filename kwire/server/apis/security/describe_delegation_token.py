"""DescribeDelegationToken: rejected, because tokens need authentication, which no listener has (KIP-48)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: NodeContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


API = Api(
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    handle=handle_describe_delegation_token,
)
