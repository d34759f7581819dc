"""DescribeGroups: return state, members and assignments of classic groups."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.group.listing import rejected_description
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_groups import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations
from kwire.server.requests.context import RequestContext


def handle_describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> Pieces[DescribeGroupsResponse]:
    group_ids = list(dict.fromkeys(request.groups))  # each group is described once
    groups = yield from mapped(group_ids, partial(_described, context, request.include_authorized_operations))
    return DescribeGroupsResponse(groups=groups)


def _described(context: RequestContext, with_operations: bool, group_id: str) -> DescribeGroupsDescribedGroup:
    if not context.allows_group(group_id):
        return rejected_description(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    described = context.services.groups.describe_group(group_id, version=context.version)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return described


API = Api(request=DescribeGroupsRequest, response=DescribeGroupsResponse, handle=handle_describe_groups)
