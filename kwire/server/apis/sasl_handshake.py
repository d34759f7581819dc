"""SaslHandshake: on a listener without SASL there is nothing to shake hands for (KIP-43)."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


API = Api(request=SaslHandshakeRequest, response=SaslHandshakeResponse, handle=handle)
