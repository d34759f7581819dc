"""SaslHandshake on a connection that needs none: its listener has no SASL, or its session has no end (KIP-43)."""

from __future__ import annotations

import logging

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_sasl_handshake(request: SaslHandshakeRequest, context: NodeContext) -> SaslHandshakeResponse:
    host, listener = context.connection.peer_host, context.listener_name
    if context.services.config.security_protocols[listener].uses_sasl:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    context.services.messages.log(
        logging.WARNING,
        ("SASL", host, listener),
        "a client at %s asks for SASL mechanism %s, but listener %s has no SASL: set its security.protocol=PLAINTEXT",
        host,
        request.mechanism,
        listener,
    )
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


API = Api(request=SaslHandshakeRequest, response=SaslHandshakeResponse, handle=handle_sasl_handshake)
