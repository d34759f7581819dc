"""AlterConfigs: replace the whole dynamic configuration of a resource. IncrementalAlterConfigs supersedes it.

2  flexible
"""

from kwire.protocol.primitives import boolean, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class AlterConfigsAlterableConfig:
    name: string = field("0+")
    value: string | None = field("0+", nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    configs: list[AlterConfigsAlterableConfig] = field("0+")


@message(key=33, kind="request", versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field("0+")
    validate_only: boolean = field("0+")


@struct
class AlterConfigsResourceResponse:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")


@message(key=33, kind="response", versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")
