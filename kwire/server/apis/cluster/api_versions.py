"""ApiVersions: the APIs of the dispatch table, and the features of this node (KIP-584)."""

from __future__ import annotations

import re

from kwire.cluster.metadata.features import KRAFT_VERSION, SUPPORTED
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_LENGTH_KEPT = 256


def handle_api_versions(request: ApiVersionsRequest, context: NodeContext) -> ApiVersionsResponse:
    if context.version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        name, version = software
        context.connection.client_software = name[:SOFTWARE_LENGTH_KEPT], version[:SOFTWARE_LENGTH_KEPT]
    image = context.services.image
    kraft_version = context.services.metadata_log.node.quorum.history.kraft_version
    return ApiVersionsResponse(
        api_keys=_api_keys(context),
        supported_features=[
            # A minimum of 0 is not sent to versions before 4: old clients could not read it (KIP-1022).
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            if low > 0 or context.version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in {**image.features, KRAFT_VERSION: kraft_version}.items()
            if level > 0
        ],
    )


def unsupported_version(context: NodeContext) -> ApiVersionsResponse:
    """Return the response to a newer ApiVersions version: in version 0, with the supported versions (KIP-511)."""
    own = [api for api in _api_keys(context) if api.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


def _api_keys(context: NodeContext) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=api.key,
            min_version=api.min_version if api.advertised_min is None else api.advertised_min,
            max_version=api.max_version,
        )
        for api in context.services.apis
        if api.is_advertised
    ]


API = Api(request=ApiVersionsRequest, response=ApiVersionsResponse, handle=handle_api_versions)
