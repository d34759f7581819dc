"""ShareGroupDescribe: return state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped_in_pieces
from kwire.cluster.metadata.features import SHARE_VERSION
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.group.share.describing import rejected_share_description
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.share_group_describe import (
    ShareGroupDescribeGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations
from kwire.server.requests.context import RequestContext

UNAUTHORIZED_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle_share_group_describe(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> Pieces[ShareGroupDescribeResponse]:
    group_ids = list(dict.fromkeys(request.group_ids))  # each group is described once
    groups = yield from mapped_in_pieces(group_ids, partial(_described, context, request.include_authorized_operations))
    return ShareGroupDescribeResponse(groups=groups)


def _described(context: RequestContext, with_operations: bool, group_id: str) -> Pieces[ShareGroupDescribeGroup]:
    if not context.services.image.features.get(SHARE_VERSION, 0):
        return rejected_share_description(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(group_id):
        return rejected_share_description(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return rejected_share_description(group_id, ErrorCode.INVALID_GROUP_ID)
    described = yield from context.services.groups.share.describe(group_id)
    topics = {topic.topic_name for member in described.members for topic in member.assignment.topic_partitions}
    if not all(map(context.allows_topic, topics)):
        return rejected_share_description(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED_TOPICS)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return described


API = Api(
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
    handle=handle_share_group_describe,
    elements_of=lambda response: sum(len(group.members) for group in response.groups),
)
