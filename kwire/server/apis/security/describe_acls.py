"""DescribeAcls: the access control entries that match a filter, by resource pattern (KIP-140)."""

from __future__ import annotations

from kwire.chunks import Pieces, mapped, mapped_in_pieces
from kwire.cluster.controller.plans.acls import matching_ids
from kwire.cluster.security.acls import Acl
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kwire.server.apis.security.acl_elements import filter_of, has_acls
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext

Pattern = tuple[int, str, int]
"""Tuple (resource type, name, pattern type)."""


def handle_describe_acls(request: DescribeAclsRequest, context: NodeContext) -> Pieces[DescribeAclsResponse]:
    acl_filter = filter_of(request)
    if not context.allows_cluster():
        return _rejected(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not has_acls(context):
        return _rejected(KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"))
    found = yield from matching_ids(context.services.image, acl_filter)
    by_pattern: dict[Pattern, dict[Acl, None]] = {}
    for acl in found.values():
        by_pattern.setdefault(acl[:3], {})[acl] = None
    resources = yield from mapped_in_pieces(by_pattern.items(), lambda each: _resource(*each))
    return DescribeAclsResponse(resources=resources)


def _resource(pattern: Pattern, acls: dict[Acl, None]) -> Pieces[DescribeAclsResource]:
    resource_type, name, pattern_type = pattern
    return DescribeAclsResource(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        acls=(yield from mapped(acls, _description)),
    )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


def _rejected(error: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message or error.code.meaning)


API = Api(request=DescribeAclsRequest, response=DescribeAclsResponse, handle=handle_describe_acls)
