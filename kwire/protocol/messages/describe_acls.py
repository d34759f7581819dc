"""DescribeAcls: the access control entries that match a filter, by resource (KIP-140).

create_acls.py lists the numbers, delete_acls.py explains filters.

1  pattern types (KIP-290)
2  flexible
3  users as resources (KIP-373)
"""

from kwire.protocol.primitives import int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@message(key=29, kind="request", versions="1-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: int8 = field("0+")
    resource_name_filter: string | None = field("0+", nullable="0+")
    """None matches every name."""
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: string | None = field("0+", nullable="0+")
    """None matches every principal."""
    host_filter: string | None = field("0+", nullable="0+")
    """None matches every host."""
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


@struct
class AclDescription:
    principal: string = field("0+")
    host: string = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


@struct
class DescribeAclsResource:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    pattern_type: int8 = field("1+", default=3)
    acls: list[AclDescription] = field("0+")


@message(key=29, kind="response", versions="1-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")
    resources: list[DescribeAclsResource] = field("0+")
