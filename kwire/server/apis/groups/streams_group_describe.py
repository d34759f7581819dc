"""StreamsGroupDescribe: return state, topology, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kwire.chunks import Pieces, mapped_in_pieces
from kwire.cluster.security.acls import ResourceType
from kwire.coordinator.group.streams.describing import rejected_streams_description
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeTopology,
)
from kwire.server.requests.api import Api
from kwire.server.requests.authorized_operations import authorized_operations
from kwire.server.requests.context import RequestContext

UNAUTHORIZED_TOPICS = "The described group uses topics that the client is not authorized to describe."


def handle_streams_group_describe(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> Pieces[StreamsGroupDescribeResponse]:
    group_ids = list(dict.fromkeys(request.group_ids))  # each group is described once
    groups = yield from mapped_in_pieces(group_ids, partial(_described, context, request.include_authorized_operations))
    return StreamsGroupDescribeResponse(groups=groups)


def _described(context: RequestContext, with_operations: bool, group_id: str) -> Pieces[StreamsGroupDescribeGroup]:
    if not context.services.groups.streams.is_enabled():
        return rejected_streams_description(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows_group(group_id):
        return rejected_streams_description(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return rejected_streams_description(group_id, ErrorCode.INVALID_GROUP_ID)
    described = yield from context.services.groups.streams.describe(group_id)
    if described.topology is not None and not all(map(context.allows_topic, set(_topics(described.topology)))):
        return rejected_streams_description(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED_TOPICS)
    if with_operations and described.error_code == ErrorCode.NONE:
        described.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return described


def _topics(topology: StreamsGroupDescribeTopology) -> Iterator[str]:
    for subtopology in topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        yield from (topic.name for topic in subtopology.repartition_source_topics)
        yield from (topic.name for topic in subtopology.state_changelog_topics)


API = Api(
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
    handle=handle_streams_group_describe,
    elements_of=lambda response: sum(len(group.members) for group in response.groups),
)
