"""ListConfigResources: list resources with configurations (KIP-1142; version 0 lists subscriptions, KIP-714)."""

from __future__ import annotations

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.list_config_resources import (
    ListConfigResourcesConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

_T = ConfigResourceType
LISTED = (_T.TOPIC, _T.BROKER, _T.BROKER_LOGGER, _T.CLIENT_METRICS, _T.GROUP)


def handle_list_config_resources(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    if not context.allows_cluster():
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.version == 0:
        requested = [int(_T.CLIENT_METRICS)]
    else:
        requested = list(dict.fromkeys(request.resource_types)) or [int(kind) for kind in LISTED]
    if not all(kind in LISTED for kind in requested):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesConfigResource(resource_name=name, resource_type=kind)
            for kind in requested
            for name in _names(kind, context)
        ]
    )


def _names(kind: int, context: RequestContext) -> list[str]:
    image = context.services.image
    if kind == _T.TOPIC:
        return list(image.topics)
    if kind in (_T.BROKER, _T.BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    return [name for owner, name in image.configs if owner == kind]


API = Api(request=ListConfigResourcesRequest, response=ListConfigResourcesResponse, handle=handle_list_config_resources)
