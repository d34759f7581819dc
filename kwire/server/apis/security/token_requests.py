"""Common code of the delegation token requests: the connections that they are accepted from (KIP-48)."""

from __future__ import annotations

from typing import Final

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.requests.context import ForwardedClient
from kwire.server.requests.services import NodeContext
from kwire.server.settings.security_protocols import SecurityProtocol

NEVER: Final = -1
"""Time in a response to a request that is not allowed."""
ANONYMOUS: Final = "User:ANONYMOUS"


def check_allowed(context: NodeContext) -> None:
    """Raise KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client has proven its name without a token.

    A request that another node has forwarded has passed the check of its connection there.
    """
    client = context.connection
    if not client.token_authenticated:
        if isinstance(client, ForwardedClient):
            return
        protocol = context.services.config.security_protocols[context.listener_name]
        if protocol.uses_sasl or (protocol is SecurityProtocol.SSL and client.principal != ANONYMOUS):
            return
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def time_of_rejected(error: KafkaError) -> int:
    """Return the time in a rejected response, as in Apache Kafka."""
    return NEVER if error.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
