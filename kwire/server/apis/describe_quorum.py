"""DescribeQuorum: who leads the metadata log, who votes, and how far everybody is (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from kwire.cluster.topic_names import METADATA_TOPIC
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    QuorumListener,
    QuorumNode,
    QuorumReplicaState,
)
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    if not context.allows_cluster():
        return _error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context)
    named = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    # The question is for one partition; anything more is answered as if nothing of it were here, as in Kafka.
    if named != [(METADATA_TOPIC, [0])]:
        topics = [_unknown(name, indexes, context) for name, indexes in named]
        return DescribeQuorumResponse(error_message=_text("", context), topics=topics)
    response = DescribeQuorumResponse(
        error_message=_text("", context),
        topics=[DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_metadata(context)])],
    )
    if context.version >= 2:
        response.nodes = _nodes(context)
    return response


def _text(text: str, context: RequestContext) -> str | None:
    """A message, where the version has room for it."""
    return text if context.version >= 2 else None


def _error(code: ErrorCode, context: RequestContext) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=_text(code.meaning, context))


def _unknown(name: str, indexes: list[int], context: RequestContext) -> DescribeQuorumResponseTopicData:
    partitions = [
        DescribeQuorumResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=_text("This server does not host this topic-partition.", context),
        )
        for index in indexes
    ]
    return DescribeQuorumResponseTopicData(topic_name=name, partitions=partitions)


def _metadata(context: RequestContext) -> DescribeQuorumResponsePartitionData:
    services = context.services
    log = services.metadata_log
    voter = QuorumReplicaState(replica_id=services.node_id, log_end_offset=log.next_offset)
    if context.version >= 1:
        voter.last_fetch_timestamp = voter.last_caught_up_timestamp = services.clock.wall_ms()
    if context.version >= 2:
        voter.replica_directory_id = services.image.brokers[services.node_id].directories[0]
    return DescribeQuorumResponsePartitionData(
        error_message=_text("", context),
        leader_id=services.node_id,
        leader_epoch=log.epoch,
        high_watermark=log.high_watermark,
        current_voters=[voter],
    )


def _nodes(context: RequestContext) -> list[QuorumNode]:
    return [
        QuorumNode(
            node_id=node_id,
            listeners=[QuorumListener(name=end.name, host=end.host, port=end.port) for end in controller.endpoints],
        )
        for node_id, controller in context.services.image.controllers.items()
    ]


API = Api(request=DescribeQuorumRequest, response=DescribeQuorumResponse, handle=handle)
