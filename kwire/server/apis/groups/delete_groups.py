"""DeleteGroups: delete empty groups and their committed offsets (KIP-229)."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped
from kwire.coordinator.answers import Answer, when_many_answered
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_delete_groups(request: DeleteGroupsRequest, context: RequestContext) -> Pieces[Answer[DeleteGroupsResponse]]:
    results = yield from mapped(list(dict.fromkeys(request.groups_names)), partial(_delete, context))
    return (yield from when_many_answered(results, lambda done: DeleteGroupsResponse(results=done)))


def _delete(context: RequestContext, group_id: str) -> Answer[DeletableGroupResult]:
    if not context.allows_group(group_id):
        return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return context.services.groups.delete_group(group_id)


API = Api(request=DeleteGroupsRequest, response=DeleteGroupsResponse, handle=handle_delete_groups)
