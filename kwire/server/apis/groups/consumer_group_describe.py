"""ConsumerGroupDescribe: return state, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from functools import partial

from kwire.chunks import Pieces, mapped_in_pieces
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.group.consumer.describing import rejected_consumer_description
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations
from kwire.server.requests.context import RequestContext

UNAUTHORIZED_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> Pieces[ConsumerGroupDescribeResponse]:
    group_ids = list(dict.fromkeys(request.group_ids))  # each group is described once
    groups = yield from mapped_in_pieces(group_ids, partial(_described, context, request.include_authorized_operations))
    return ConsumerGroupDescribeResponse(groups=groups)


def _described(context: RequestContext, with_operations: bool, group_id: str) -> Pieces[ConsumerGroupDescribeGroup]:
    if not context.services.groups.has_consumer_groups():
        return rejected_consumer_description(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(group_id):
        return rejected_consumer_description(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return rejected_consumer_description(group_id, ErrorCode.INVALID_GROUP_ID)
    described = yield from context.services.groups.describe_consumer_group(group_id)
    topics = {
        topic.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not all(map(context.allows_topic, topics)):
        return rejected_consumer_description(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED_TOPICS)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return described


API = Api(
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    handle=handle_consumer_group_describe,
    elements_of=lambda response: sum(len(group.members) for group in response.groups),
)
