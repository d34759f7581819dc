"""ListGroups: list the groups that this broker coordinates and that the client is authorized to describe."""

from __future__ import annotations

from collections.abc import Generator

from kwire.protocol.error_codes import KafkaError
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_list_groups(
    request: ListGroupsRequest, context: RequestContext
) -> Generator[None, None, ListGroupsResponse]:
    response = ListGroupsResponse()
    may_see_all = context.allows_cluster(is_requested=False)
    try:
        for chunk in context.services.groups.list_groups(request.states_filter, request.types_filter):
            yield
            response.groups += [
                group for group in chunk if may_see_all or context.allows_group(group.group_id, is_requested=False)
            ]
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return response


API = Api(request=ListGroupsRequest, response=ListGroupsResponse, handle=handle_list_groups)
