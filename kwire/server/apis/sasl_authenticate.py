"""SaslAuthenticate: rejected, because no listener uses SASL (KIP-152)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


API = Api(request=SaslAuthenticateRequest, response=SaslAuthenticateResponse, handle=handle)
