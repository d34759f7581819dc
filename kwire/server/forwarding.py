"""APIs of the active controller, to which a broker hands the request, and the answer back (KIP-590)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kwire.protocol.error_codes import KafkaError
from kwire.server.active_controller import Asker
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

Refuse = Callable[[Any, KafkaError], Any]
"""Gets (request, error); the response when no controller could answer. Raises nothing."""


def forwarded(api: Api, refuse: Refuse) -> Api:
    """The row of a broker's table for a row of the controller's."""

    async def handle(request: Any, context: RequestContext) -> Any:
        try:
            return await context.services.active_controller.ask_until_answered(request, asker_of(context))
        except KafkaError as error:
            return refuse(request, error)

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
