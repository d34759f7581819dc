"""AlterConfigs: set the whole configuration of a resource. Its successor is IncrementalAlterConfigs.

A broker looks at what would become of its own configuration, and the active controller at the rest.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from kwire.chunks import in_turns, mapped
from kwire.cluster.config_keys import ConfigResourceType
from kwire.cluster.controller.configs import without_nulls
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.services import of_controller
from kwire.server.settings.altered_resources import Resource, check_broker_values, is_forwarded, pass_on, sift


async def handle_at_broker(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    def check(resource: AlterConfigsResource) -> None:
        values = _checked(resource)
        if resource.resource_type == ConfigResourceType.BROKER:
            check_broker_values(resource.resource_name, values, context)

    accepted, refused = await sift(request.resources, context, check)
    passed_on = AlterConfigsRequest(resources=accepted, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=await pass_on(passed_on, accepted, refused, _response, context))


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    def check(resource: AlterConfigsResource) -> None:
        _checked(resource)

    accepted, refused = await sift(request.resources, context, check)
    wishes = [
        (
            (resource.resource_type, resource.resource_name),
            {config.name: config.value for config in resource.configs},
        )
        for resource in accepted
    ]
    outcomes = await of_controller(context).controller.replace_configs(
        wishes, validate_only=request.validate_only, is_forwarded=is_forwarded(context)
    )
    refused += [(resource, outcome) for resource, outcome in zip(accepted, outcomes, strict=True)]
    return AlterConfigsResponse(responses=await in_turns(mapped(refused, lambda outcome: _response(*outcome))))


def _checked(resource: AlterConfigsResource) -> dict[str, str]:
    """The values, if any resource could have them."""
    repeats = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in repeats.values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    return without_nulls({config.name: config.value for config in resource.configs})


def _response(resource: Resource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])


API = Api(request=AlterConfigsRequest, response=AlterConfigsResponse, handle=handle)
AT_BROKER = dataclasses.replace(API, handle=handle_at_broker)
