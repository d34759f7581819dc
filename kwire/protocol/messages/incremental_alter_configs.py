"""IncrementalAlterConfigs: set, delete, append to or subtract from single configuration values (KIP-339).

1  flexible
"""

from kwire.protocol.primitives import boolean, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class IncrementalAlterConfigsAlterableConfig:
    name: string = field("0+")
    config_operation: int8 = field("0+")
    value: string | None = field("0+", nullable="0+")


@struct
class IncrementalAlterConfigsAlterConfigsResource:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    configs: list[IncrementalAlterConfigsAlterableConfig] = field("0+")


@message(key=44, kind="request", versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[IncrementalAlterConfigsAlterConfigsResource] = field("0+")
    validate_only: boolean = field("0+")


@struct
class IncrementalAlterConfigsAlterConfigsResourceResponse:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")


@message(key=44, kind="response", versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int32 = field("0+")
    responses: list[IncrementalAlterConfigsAlterConfigsResourceResponse] = field("0+")
