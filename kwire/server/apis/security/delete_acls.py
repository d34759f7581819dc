"""DeleteAcls: remove the access control entries that match filters; each filter has a result of its own (KIP-140)."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.chunks import Pieces, in_turns, mapped, mapped_in_pieces
from kwire.cluster.security.acls import Acl
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.server.apis.security.acl_elements import error_result, filter_of, has_acls, no_authorizer, reject_each
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext


async def handle_delete_acls(request: DeleteAclsRequest, context: ControllerContext) -> DeleteAclsResponse:
    filters = await in_turns(mapped(request.filters, filter_of))
    if not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not has_acls(context):
        raise no_authorizer()
    outcomes = await context.services.controller.delete_acls(filters)
    return DeleteAclsResponse(filter_results=await in_turns(mapped_in_pieces(outcomes, _result)))


def _result(outcome: Sequence[Acl] | KafkaError) -> Pieces[DeleteAclsFilterResult]:
    if isinstance(outcome, KafkaError):
        return error_result(DeleteAclsFilterResult, outcome)
    return DeleteAclsFilterResult(error_message=None, matching_acls=(yield from mapped(outcome, _matching)))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def reject(request: DeleteAclsRequest, error: KafkaError) -> Pieces[DeleteAclsResponse]:
    results = yield from reject_each(DeleteAclsFilterResult, request.filters, error)
    return DeleteAclsResponse(filter_results=results)


API = Api(request=DeleteAclsRequest, response=DeleteAclsResponse, handle=handle_delete_acls)
_FORWARDED = forwarded(API, reject)


async def handle_at_broker(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Forward a request that can be read: one that cannot must close the client's connection, not the controller's."""
    await in_turns(mapped(request.filters, filter_of))
    response: DeleteAclsResponse = await _FORWARDED.handle(request, context)
    return response


AT_BROKER = API.served_by(handle_at_broker)
