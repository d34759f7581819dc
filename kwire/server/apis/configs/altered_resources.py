"""Resources of an alter request: those that are forwarded to the controller, and those that are rejected before.

A broker itself checks changes of its own configuration, and of the default of all brokers: only the broker knows the
resulting settings. The controller checks the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kwire.chunks import Pieces, chunks, in_turns, mapped, turn
from kwire.cluster.configs.broker import BROKER_KEYS
from kwire.cluster.configs.config_keys import ConfigResourceType, ConfigType, broker_id_of
from kwire.cluster.controller.plans.configs import AlterOperation, Change, changed
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.repeats import repeated
from kwire.server.other_nodes.forwarding import request_origin_of
from kwire.server.requests.context import ForwardedClient, RequestContext
from kwire.server.requests.services import NodeContext
from kwire.server.security.sasl.current_sasl import check_altered_sasl
from kwire.server.settings.dynamic_checks import check_dynamic, check_parts


class Resource(Protocol):
    """Resource of either alter request."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)


async def sift(
    resources: Sequence[R], context: NodeContext, check: Callable[[R], Pieces[object]]
) -> tuple[list[R], list[tuple[R, KafkaError | None]]]:
    """Return (accepted resources, rejected resources with the error); a repeated resource is rejected once.

    `check` may return an awaitable: a further check, outside of the event loop.
    """
    repeats = await in_turns(repeated((resource.resource_type, resource.resource_name) for resource in resources))
    accepted: list[R] = []
    rejected: dict[tuple[int, str], tuple[R, KafkaError | None]] = {}
    for some in chunks(resources):
        for resource in some:
            key = (resource.resource_type, resource.resource_name)
            try:
                if key in repeats:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                _authorize(resource, context)
                checked = await in_turns(check(resource))
                if isinstance(checked, Awaitable):
                    await checked
            except KafkaError as error:
                rejected[key] = (resource, error.without_traceback())
            else:
                accepted.append(resource)
        await turn()  # also after a few resources: one may have thousands of keys
    return accepted, list(rejected.values())


async def pass_on(
    request: Any,
    accepted: Sequence[R],
    rejected: Sequence[tuple[R, KafkaError | None]],
    respond: Callable[[R, KafkaError | None], Any],
    context: RequestContext,
) -> list[Any]:
    """Return the responses for all resources: those rejected here, and those of the active
    controller for the accepted ones.

    `request` has only the accepted ones; `respond` makes the response for one resource.
    """
    responses = await in_turns(mapped(rejected, lambda outcome: respond(*outcome)))
    if not accepted:
        return responses
    try:
        response = await context.services.active_controller.send_until_answered(request, request_origin_of(context))
    except KafkaError as error:
        rejection = error.without_traceback()  # without the traceback, which keeps this frame
        return responses + await in_turns(mapped(accepted, lambda resource: respond(resource, rejection)))
    return responses + list(response.responses)


def is_forwarded(context: NodeContext) -> bool:
    """Return True if a broker forwarded the request to the controller, in an Envelope or in the same process."""
    is_distant = isinstance(context.connection, ForwardedClient)
    return is_distant or context.listener_name not in context.services.config.controller_listener_names


def _authorize(resource: Resource, context: NodeContext) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == ConfigResourceType.TOPIC:
        if not context.allows_topic(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif kind == ConfigResourceType.GROUP:
        if not context.allows_group(name):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def check_broker_changes(
    name: str, changes: Sequence[Change], context: RequestContext
) -> Pieces[Awaitable[None] | None]:
    """Raise KafkaError if these changes of the broker, or without a name of all brokers, are not valid.

    The result is the check of parts that read files, see check_broker_values.
    """
    _check_broker_name(name, context)
    yield from mapped(changes, _check_operation)
    dynamic = context.services.dynamic_configs
    before = dynamic.own if name else dynamic.defaults
    after = yield from changed((ConfigResourceType.BROKER, name), before, changes)
    return check_broker_values(name, after, context)


def _check_operation(change: Change) -> None:
    name, operation, _ = change
    key = BROKER_KEYS.get(name)
    if operation in {AlterOperation.APPEND, AlterOperation.SUBTRACT} and (
        key is None or key.type is not ConfigType.LIST
    ):
        word = AlterOperation(operation).name.lower()
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Config value {word} is not allowed for config key: {name}")


def check_broker_values(name: str, values: Mapping[str, str], context: RequestContext) -> Awaitable[None] | None:
    """Raise KafkaError if the values are not a valid configuration of the broker, or without a name of all brokers.

    The result is the check of the broker's parts, which may read files: it is still to be awaited.
    """
    _check_broker_name(name, context)
    services = context.services
    check_dynamic(services.config, services.settings, services.dynamic_configs, values, per_broker=bool(name))
    check_altered_sasl(services.config, services.settings, services.dynamic_configs, values, per_broker=bool(name))
    if not name:
        return None
    return check_parts(services.config, services.settings, services.dynamic_configs, values)


def _check_broker_name(name: str, context: RequestContext) -> None:
    if not name:
        return
    broker_id = broker_id_of(name)
    if broker_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if broker_id != context.services.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.services.node_id}, but received {name}",
        )
