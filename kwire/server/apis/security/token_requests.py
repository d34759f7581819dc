"""Common code of the delegation token requests: from which connections they are accepted, and how they reach the
controller (KIP-48).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import ForwardedClient, RequestContext
from kwire.server.requests.services import ControllerServices, NodeContext
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


def at_broker(
    api: Api[ControllerServices],
    reject: Callable[[Any, KafkaError], Any],
    reject_here: Callable[[Any, NodeContext, KafkaError], Any] | None = None,
) -> Api:
    """Return the entry of a broker's table: the broker checks the connection, and the controller all else.

    `reject` returns a response with an error, `reject_here` one with an error of the connection, if they differ.
    """
    to_controller = forwarded(api, reject)

    async def handle(request: Any, context: RequestContext) -> Any:
        try:
            check_allowed(context)
        except KafkaError as error:
            return reject(request, error) if reject_here is None else reject_here(request, context, error)
        return await to_controller.handle(request, context)

    return api.served_by(handle)


def time_of_rejected(error: KafkaError) -> int:
    """Return the time in a rejected response, as in Apache Kafka."""
    return NEVER if error.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED else 0
