"""CreateAcls: there is no authorizer that could keep entries, and a Kafka without one says so."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kwire.server.acl_elements import check_elements
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    for entry in request.creations:
        check_elements(entry.resource_type, entry.resource_pattern_type, entry.operation, entry.permission_type)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.creations
        ]
    )


API = Api(request=CreateAclsRequest, response=CreateAclsResponse, handle=handle)
