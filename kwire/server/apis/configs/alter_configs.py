"""AlterConfigs: set the whole configuration of a resource. Its successor is IncrementalAlterConfigs.

A broker checks changes of its own configuration, and the active controller checks all others.
"""

from __future__ import annotations

from kwire.chunks import Pieces, in_turns, mapped, mapped_in_pieces
from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.controller.plans.configs import without_nulls
from kwire.cluster.metadata.image import ConfigResource
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kwire.server.apis.configs.altered_resources import Resource, check_broker_values, is_forwarded, pass_on, sift
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext


async def handle_at_broker(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    def check(resource: AlterConfigsResource) -> Pieces[object]:
        values = yield from _checked(resource)
        if resource.resource_type != ConfigResourceType.BROKER:
            return None
        return check_broker_values(resource.resource_name, values, context)

    accepted, rejected = await sift(request.resources, context, check)
    passed_on = AlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=await pass_on(passed_on, accepted, rejected, _response, context))


async def handle_alter_configs(request: AlterConfigsRequest, context: ControllerContext) -> AlterConfigsResponse:
    accepted, rejected = await sift(request.resources, context, _checked)
    requested = await in_turns(mapped_in_pieces(accepted, _requested))
    outcomes = await context.services.controller.replace_configs(
        requested, validate_only=request.validate_only, is_forwarded=is_forwarded(context)
    )
    rejected += zip(accepted, outcomes, strict=True)
    return AlterConfigsResponse(responses=await in_turns(mapped(rejected, lambda outcome: _response(*outcome))))


def _requested(resource: AlterConfigsResource) -> Pieces[tuple[ConfigResource, dict[str, str]]]:
    return (resource.resource_type, resource.resource_name), (yield from _checked(resource))


def _checked(resource: AlterConfigsResource) -> Pieces[dict[str, str]]:
    """Return the values after checks that do not depend on the resource. Raises KafkaError."""
    values = dict((yield from mapped(resource.configs, lambda config: (config.name, config.value))))
    if len(values) < len(resource.configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return without_nulls(values)


def _response(resource: Resource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def reject(request: AlterConfigsRequest, error: KafkaError) -> Pieces[AlterConfigsResponse]:
    responses = yield from mapped(request.resources, lambda resource: _response(resource, error))
    return AlterConfigsResponse(responses=responses)


API = Api(request=AlterConfigsRequest, response=AlterConfigsResponse, handle=handle_alter_configs)
AT_BROKER = API.served_by(handle_at_broker)
