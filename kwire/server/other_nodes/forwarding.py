"""APIs of the active controller: a broker forwards the request and returns the controller's response (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.chunks import whole
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.other_nodes.active_controller import RequestOrigin
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext, ControllerServices, NodeContext

Reject = Callable[[Any, KafkaError], Any]
"""Function of (request, error): returns the error response, or a generator that makes it in pieces. Never raises."""


def forwarded(api: Api[ControllerServices], reject: Reject, *, timeout_ms: int | None = None) -> Api:
    """Return the entry of a broker's table for an entry of the controller's.

    `timeout_ms` is how long the broker looks for an active controller; None for request.timeout.ms.
    """

    async def handle(request: Any, context: RequestContext) -> Any:
        try:
            return await context.services.active_controller.send_until_answered(
                request, request_origin_of(context), timeout_ms=timeout_ms
            )
        except KafkaError as error:
            return await whole(reject(request, error))

    return api.served_by(handle)


def decided(api: Api[ControllerServices], reject: Reject) -> Api[ControllerServices]:
    """Return the entry of a controller's table for an API that only the active controller decides.

    Any other controller returns NOT_CONTROLLER before it checks the request: its metadata may be old, and the client
    would treat an error as final.
    """

    async def handle(request: Any, context: ControllerContext) -> Any:
        if not context.services.metadata_log.is_active:
            return await whole(reject(request, KafkaError(ErrorCode.NOT_CONTROLLER)))
        try:
            return await whole(api.handle(request, context))
        except KafkaError as error:
            return await whole(reject(request, error))

    return api.served_by(handle)


def request_origin_of(context: NodeContext) -> RequestOrigin:
    """Return the client of a request, as it is named to the controller."""
    return RequestOrigin(
        client=context.connection,
        client_id=context.client_id,
        listener_name=context.listener_name,
        version=context.version,
        correlation_id=context.correlation_id,
    )
