"""DescribeAcls: rejected with SECURITY_DISABLED, as by Kafka without an authorizer."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.server.apis.security.acl_elements import check_elements
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_describe_acls(request: DescribeAclsRequest, context: NodeContext) -> DescribeAclsResponse:
    check_elements(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


API = Api(request=DescribeAclsRequest, response=DescribeAclsResponse, handle=handle_describe_acls)
