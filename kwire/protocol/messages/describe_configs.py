"""DescribeConfigs: the configuration of topics, brokers and groups, with its sources.

1  sources and synonyms (KIP-226)
3  types and documentation (KIP-569)
4  flexible
"""

from kwire.protocol.primitives import boolean, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribeConfigsResource:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    configuration_keys: list[string] | None = field("0+", nullable="0+")


@message(key=32, kind="request", versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field("0+")
    include_synonyms: boolean = field("1+")
    include_documentation: boolean = field("3+")


@struct
class DescribeConfigsSynonym:
    name: string = field("1+")
    value: string | None = field("1+", nullable="0+")
    source: int8 = field("1+")


@struct
class DescribeConfigsResourceResult:
    name: string = field("0+")
    value: string | None = field("0+", nullable="0+")
    read_only: boolean = field("0+")
    config_source: int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: boolean = field("0+")
    synonyms: list[DescribeConfigsSynonym] = field("1+", ignorable=True)
    config_type: int8 = field("3+", ignorable=True)
    documentation: string | None = field("3+", nullable="0+", ignorable=True)


@struct
class DescribeConfigsResult:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    configs: list[DescribeConfigsResourceResult] = field("0+")


@message(key=32, kind="response", versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[DescribeConfigsResult] = field("0+")
