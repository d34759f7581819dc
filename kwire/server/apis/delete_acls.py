"""DeleteAcls: there is no authorizer that could have entries, and a Kafka without one says so."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kwire.server.acl_elements import check_elements
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    for each in request.filters:
        check_elements(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.filters
        ]
    )


API = Api(request=DeleteAclsRequest, response=DeleteAclsResponse, handle=handle)
