"""ListConfigResources: names of the resources that have configuration, by type (KIP-1142).

0  client metrics subscriptions only; the API was then called ListClientMetricsResources (KIP-714)
1  the types to list, and the type of each resource (KIP-1142)
"""

from kwire.protocol.primitives import int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=74, kind="request", versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int8] = field("1+")
    """Empty for all types that can be listed."""


@struct
class ListConfigResourcesConfigResource:
    resource_name: string = field("0+")
    resource_type: int8 = field("1+", default=16, ignorable=True)
    """16 is CLIENT_METRICS, the only type of version 0."""


@message(key=74, kind="response", versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    config_resources: list[ListConfigResourcesConfigResource] = field("0+")
