"""SaslAuthenticate on a connection that is authenticated, or needs no authentication (KIP-152)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_sasl_authenticate(request: SaslAuthenticateRequest, context: NodeContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


API = Api(request=SaslAuthenticateRequest, response=SaslAuthenticateResponse, handle=handle_sasl_authenticate)
