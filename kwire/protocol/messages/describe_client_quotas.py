"""DescribeClientQuotas: the client quotas that are set, found by a filter over their entities (KIP-546).

Entity types are user, client-id and ip. A filter component matches one exact name, the default or any name; with
`strict`, entities that have types beyond those of the filter are omitted.

1  flexible
"""

from kwire.protocol.primitives import boolean, float64, int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class DescribeClientQuotasComponent:
    entity_type: string = field("0+")
    match_type: int8 = field("0+")
    """0 exact name, 1 default, 2 any specified name."""
    match: string | None = field("0+", nullable="0+")
    """None unless the name is exact."""


@message(key=48, kind="request", versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[DescribeClientQuotasComponent] = field("0+")
    strict: boolean = field("0+")


@struct
class DescribeClientQuotasEntity:
    entity_type: string = field("0+")
    entity_name: string | None = field("0+", nullable="0+")
    """None is the default entity."""


@struct
class DescribeClientQuotasValue:
    key: string = field("0+")
    value: float64 = field("0+")


@struct
class DescribeClientQuotasEntry:
    entity: list[DescribeClientQuotasEntity] = field("0+")
    values: list[DescribeClientQuotasValue] = field("0+")


@message(key=48, kind="response", versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    entries: list[DescribeClientQuotasEntry] | None = field("0+", nullable="0+")
