"""CreateAcls: add access control entries; each has a result of its own (KIP-140)."""

from __future__ import annotations

from kwire.chunks import Pieces, in_turns, mapped
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kwire.server.apis.security.acl_elements import entry_of, error_result, has_acls, no_authorizer, reject_each
from kwire.server.other_nodes.forwarding import forwarded
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from kwire.server.requests.services import ControllerContext


async def handle_create_acls(request: CreateAclsRequest, context: ControllerContext) -> CreateAclsResponse:
    entries = await in_turns(mapped(request.creations, entry_of))
    if not context.allows_cluster():
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not has_acls(context):
        raise no_authorizer()
    outcomes = await context.services.controller.create_acls(entries)
    return CreateAclsResponse(results=await in_turns(mapped(outcomes, _result)))


def _result(error: KafkaError | None) -> AclCreationResult:
    return AclCreationResult() if error is None else error_result(AclCreationResult, error)


def reject(request: CreateAclsRequest, error: KafkaError) -> Pieces[CreateAclsResponse]:
    return CreateAclsResponse(results=(yield from reject_each(AclCreationResult, request.creations, error)))


API = Api(request=CreateAclsRequest, response=CreateAclsResponse, handle=handle_create_acls)
_FORWARDED = forwarded(API, reject)


async def handle_at_broker(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Forward a request that can be read: one that cannot must close the client's connection, not the controller's."""
    await in_turns(mapped(request.creations, entry_of))
    response: CreateAclsResponse = await _FORWARDED.handle(request, context)
    return response


AT_BROKER = API.served_by(handle_at_broker)
