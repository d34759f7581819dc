"""AlterConfigs: set the whole configuration of a resource. Its successor is IncrementalAlterConfigs."""

from __future__ import annotations

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kwire.server.altered_resources import Resource, sift
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    accepted, refused = sift(request.resources, context)
    wishes = [
        (
            (resource.resource_type, resource.resource_name),
            {config.name: config.value for config in resource.configs},
        )
        for resource in accepted
    ]
    outcomes = await context.services.controller.replace_configs(wishes, validate_only=request.validate_only)
    refused += [(resource, outcome) for resource, outcome in zip(accepted, outcomes, strict=True)]
    return AlterConfigsResponse(responses=[_response(*outcome) for outcome in refused])


def _response(resource: Resource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


API = Api(request=AlterConfigsRequest, response=AlterConfigsResponse, handle=handle)
