"""DeleteAcls: rejected with SECURITY_DISABLED, as by Kafka without an authorizer."""

from __future__ import annotations

from kwire.chunks import Pieces
from kwire.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kwire.server.apis.security.acl_elements import reject_all
from kwire.server.requests.api import Api
from kwire.server.requests.services import NodeContext


def handle_delete_acls(request: DeleteAclsRequest, context: NodeContext) -> Pieces[DeleteAclsResponse]:
    elements = (
        (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
        for each in request.filters
    )
    return DeleteAclsResponse(filter_results=(yield from reject_all(DeleteAclsFilterResult, elements)))


API = Api(request=DeleteAclsRequest, response=DeleteAclsResponse, handle=handle_delete_acls)
