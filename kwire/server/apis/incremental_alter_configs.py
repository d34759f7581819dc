"""IncrementalAlterConfigs: set, delete, append to or subtract from single keys (KIP-339)."""

from __future__ import annotations

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.server.altered_resources import Resource, sift
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    accepted, refused = sift(request.resources, context)
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in accepted
    ]
    outcomes = await context.services.controller.alter_configs(changes, validate_only=request.validate_only)
    refused += [(resource, outcome) for resource, outcome in zip(accepted, outcomes, strict=True)]
    return IncrementalAlterConfigsResponse(responses=[_response(*outcome) for outcome in refused])


def _response(resource: Resource, error: KafkaError | None) -> IncrementalAlterConfigsAlterConfigsResourceResponse:
    return IncrementalAlterConfigsAlterConfigsResourceResponse(
        error_code=error.code if error else 0,
        error_message=error.message or error.code.meaning if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


API = Api(request=IncrementalAlterConfigsRequest, response=IncrementalAlterConfigsResponse, handle=handle)
