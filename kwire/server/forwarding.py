"""APIs of the active controller, to which a broker hands the request, and the answer back (KIP-590)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kwire.chunks import whole
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.active_controller import Asker
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

Refuse = Callable[[Any, KafkaError], Any]
"""Gets (request, error); the response when no controller could answer, or what makes it in pieces. Raises nothing."""


def forwarded(api: Api, refuse: Refuse, *, timeout_ms: int | None = None) -> Api:
    """Return the row of a broker's table for a row of the controller's.

    `timeout_ms` is how long the broker looks for an active controller; None for request.timeout.ms.
    """

    async def handle(request: Any, context: RequestContext) -> Any:
        try:
            return await context.services.active_controller.ask_until_answered(
                request, asker_of(context), timeout_ms=timeout_ms
            )
        except KafkaError as error:
            return await whole(refuse(request, error))

    return dataclasses.replace(api, handle=handle)


def decided(api: Api, refuse: Refuse) -> Api:
    """The row of a controller's table for what only the active one decides.

    Another controller does not even look at the request: what it knows may be old, and a refusal would be believed.
    """

    async def handle(request: Any, context: RequestContext) -> Any:
        if not context.services.metadata_log.is_active:
            return await whole(refuse(request, KafkaError(ErrorCode.NOT_CONTROLLER)))
        try:
            return await whole(api.handle(request, context))
        except KafkaError as error:
            return await whole(refuse(request, error))

    return dataclasses.replace(api, handle=handle)


def asker_of(context: RequestContext) -> Asker:
    """The client of a request, as the controller is told of it."""
    return Asker(
        client=context.connection,
        client_id=context.client_id,
        listener_name=context.listener_name,
        version=context.version,
        correlation_id=context.correlation_id,
    )
