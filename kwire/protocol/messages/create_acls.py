"""CreateAcls: add access control entries (KIP-140).

Resource types: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
Pattern types: 3 literal, 4 prefixed. Permissions: 2 deny, 3 allow.
Operations: 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs;
11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit.

1  pattern types (KIP-290)
2  flexible
3  users as resources (KIP-373)
"""

from kwire.protocol.primitives import int8, int16, int32, string
from kwire.protocol.schema import field, message, struct


@struct
class AclCreation:
    resource_type: int8 = field("0+")
    resource_name: string = field("0+")
    resource_pattern_type: int8 = field("1+", default=3)
    principal: string = field("0+")
    host: string = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


@message(key=30, kind="request", versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation] = field("0+")


@struct
class AclCreationResult:
    error_code: int16 = field("0+")
    error_message: string | None = field("0+", nullable="0+")


@message(key=30, kind="response", versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: int32 = field("0+")
    results: list[AclCreationResult] = field("0+")
