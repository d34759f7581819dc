"""ListGroups: the groups that this broker coordinates, as far as the client may see them."""

from __future__ import annotations

from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    code, groups = context.services.groups.list_groups(request.states_filter, request.types_filter)
    if not context.allows_cluster():
        groups = [group for group in groups if context.allows_group(group.group_id)]
    return ListGroupsResponse(error_code=code, groups=groups)


API = Api(request=ListGroupsRequest, response=ListGroupsResponse, handle=handle)
