"""DescribeGroups: state, members and assignments of classic groups."""

from __future__ import annotations

from kwire.coordinator.group.listing import refused_description
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_groups import (
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.server.authorization import ResourceType
from kwire.server.authorized_operations import authorized_operations
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    wanted = dict.fromkeys(request.groups)  # a group that is named again and again is told of once
    with_operations = request.include_authorized_operations
    return DescribeGroupsResponse(
        groups=[_described(group_id, context, with_operations=with_operations) for group_id in wanted]
    )


def _described(group_id: str, context: RequestContext, *, with_operations: bool) -> DescribeGroupsDescribedGroup:
    if not context.allows_group(group_id):
        return refused_description(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    described = context.services.groups.describe_group(group_id, version=context.version)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return described


API = Api(request=DescribeGroupsRequest, response=DescribeGroupsResponse, handle=handle)
