"""CreateAcls: rejected with SECURITY_DISABLED, as by Kafka without an authorizer."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kwire.server.apis.security.acl_elements import reject_all
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_create_acls(request: CreateAclsRequest, context: NodeContext) -> Pieces[CreateAclsResponse]:
    elements = (
        (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
        for each in request.creations
    )
    return CreateAclsResponse(results=(yield from reject_all(AclCreationResult, elements)))


API = Api(request=CreateAclsRequest, response=CreateAclsResponse, handle=handle_create_acls)
