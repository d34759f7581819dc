"""OffsetForLeaderEpoch: return the end of a leader epoch, so that clients detect a truncated log (KIP-101, KIP-320)."""

from __future__ import annotations

from kwire.chunks import Pieces, mapped_by_group
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Pieces[OffsetForLeaderEpochResponse]:
    topics = yield from mapped_by_group(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, partition: _partition(topic.topic, partition, context),
        lambda topic, results: OffsetForLeaderTopicResult(topic=topic.topic, partitions=results),
    )
    return OffsetForLeaderEpochResponse(topics=topics)


def _partition(
    topic: str, asked: OffsetForLeaderPartition, context: RequestContext
) -> OffsetForLeaderEpochEpochEndOffset:
    try:
        if not (context.allows_cluster(is_requested=False) or context.allows_topic(topic)):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.find(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        return OffsetForLeaderEpochEpochEndOffset(partition=asked.partition, error_code=error.code)
    epoch, end_offset = partition.log.epoch_end_offset(asked.leader_epoch)
    return OffsetForLeaderEpochEpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


API = Api(
    request=OffsetForLeaderEpochRequest, response=OffsetForLeaderEpochResponse, handle=handle_offset_for_leader_epoch
)
