"""IncrementalAlterConfigs: set, delete, append to or subtract from single keys (KIP-339).

A broker checks changes of its own configuration, and the active controller checks all others. Log levels are altered by
the node that receives the request, a broker or a controller.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.chunks import CHUNK, Pieces, chunks, in_turns, mapped, mapped_in_pieces
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.plans.configs import Change, check_changes
from kwire.cluster.metadata.image import ConfigResource
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.server.apis.configs.altered_resources import Resource, check_broker_changes, is_forwarded, pass_on, sift
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext, NodeContext
from kwire.server.settings.broker_loggers import alter_loggers

_Resource = IncrementalAlterConfigsAlterConfigsResource
KNOWN_TYPES = frozenset(ConfigResourceType) - {0}


async def handle_at_broker(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    def check(resource: _Resource) -> Pieces[object]:
        changes = yield from _checked(resource)
        if resource.resource_type != ConfigResourceType.BROKER:
            return None
        return (yield from check_broker_changes(resource.resource_name, changes, context))

    sifted, rejected = await sift(request.resources, context, check)
    accepted, altered = await in_turns(_alter_loggers(sifted, request, context))
    rejected += altered
    passed_on = IncrementalAlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=await pass_on(passed_on, accepted, rejected, _response, context))


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: ControllerContext
) -> IncrementalAlterConfigsResponse:
    sifted, rejected = await sift(request.resources, context, _checked)
    accepted, altered = await in_turns(_alter_loggers(sifted, request, context))
    rejected += altered
    changes = await in_turns(mapped_in_pieces(accepted, _requested))
    outcomes = await context.services.controller.alter_configs(
        changes, validate_only=request.validate_only, is_forwarded=is_forwarded(context)
    )
    rejected += zip(accepted, outcomes, strict=True)
    return IncrementalAlterConfigsResponse(
        responses=await in_turns(mapped(rejected, lambda outcome: _response(*outcome)))
    )


def _alter_loggers(
    resources: Sequence[_Resource],
    request: IncrementalAlterConfigsRequest,
    context: NodeContext,
) -> Pieces[tuple[list[_Resource], list[tuple[_Resource, KafkaError | None]]]]:
    """Alter the loggers among the resources; return the other resources, and the results of the loggers."""
    others: list[_Resource] = []
    outcomes: list[tuple[_Resource, KafkaError | None]] = []
    for some in chunks(resources):
        for resource in some:
            if resource.resource_type != ConfigResourceType.BROKER_LOGGER:
                others.append(resource)
                continue
            try:
                node_id, name = context.services.node_id, resource.resource_name
                alter_loggers(node_id, name, (yield from _changes(resource)), validate_only=request.validate_only)
            except KafkaError as error:
                outcomes.append((resource, error.without_traceback()))
            else:
                outcomes.append((resource, None))
        if len(some) == CHUNK:
            yield
    return others, outcomes


def _checked(resource: _Resource) -> Pieces[list[Change]]:
    """Return the changes after checks that do not depend on the resource. Raises KafkaError."""
    if resource.resource_type not in KNOWN_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.resource_type}.")
    changes = yield from _changes(resource)
    yield from check_changes(changes)
    return changes


def _requested(resource: _Resource) -> Pieces[tuple[ConfigResource, list[Change]]]:
    return (resource.resource_type, resource.resource_name), (yield from _changes(resource))


def _changes(resource: _Resource) -> Pieces[list[Change]]:
    return mapped(resource.configs, lambda config: (config.name, config.config_operation, config.value))


def _response(resource: Resource, error: KafkaError | None) -> IncrementalAlterConfigsAlterConfigsResourceResponse:
    return IncrementalAlterConfigsAlterConfigsResourceResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def reject(request: IncrementalAlterConfigsRequest, error: KafkaError) -> Pieces[IncrementalAlterConfigsResponse]:
    responses = yield from mapped(request.resources, lambda resource: _response(resource, error))
    return IncrementalAlterConfigsResponse(responses=responses)


API = Api(
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    handle=handle_incremental_alter_configs,
)
AT_BROKER = API.served_by(handle_at_broker)
