"""AlterClientQuotas: set and remove client quotas of users, client ids and IP addresses (KIP-546).

1  flexible
"""

from kwire.protocol.primitives import boolean, float64, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class AlterClientQuotasEntity:
    entity_type: string = field("0+")
    entity_name: string | None = field("0+", nullable="0+")
    """None is the default."""


@struct
class AlterClientQuotasOperation:
    key: string = field("0+")
    value: float64 = field("0+")
    """Bytes, percent or mutations per second, by key; ignored if `remove` is set."""
    remove: boolean = field("0+")


@struct
class AlterClientQuotasEntry:
    entity: list[AlterClientQuotasEntity] = field("0+")
    ops: list[AlterClientQuotasOperation] = field("0+")


@message(key=49, kind="request", versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasEntry] = field("0+")
    validate_only: boolean = field("0+")


@struct
class AlterClientQuotasEntryResponse:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    entity: list[AlterClientQuotasEntity] = field("0+")


@message(key=49, kind="response", versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int32 = field("0+")
    entries: list[AlterClientQuotasEntryResponse] = field("0+")
