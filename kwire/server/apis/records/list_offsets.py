"""ListOffsets: return the first or last offset of a partition, or the first at or after a timestamp.

Special timestamps: -1 the end; -2 the start; -3 the record with the largest timestamp (KIP-734); -4 the start on
local disk (KIP-405); -5 the last tiered offset (KIP-1005); -6 the earliest offset not yet tiered (KIP-1023). Without
remote storage -4 is the start, and -5 and -6 return no offset.

A new leader must not return less than consumers of the previous leader have seen. While its high watermark is below the
start of its epoch, a consumer gets OFFSET_NOT_AVAILABLE for the end and for uncommitted offsets (KIP-207).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator

from kwire.chunks import Steps, at_once, chunks, is_many, mapped, until_wait
from kwire.cluster.partitions.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.timestamp_search import TimestampSearch
from kwire.protocol.compression import CompressionError
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import (
    CONSUMER,
    DEBUGGER,
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.records import InvalidRecordsError
from kwire.repeats import repeated
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Found = tuple[int, int, int]
"""Tuple of timestamp, offset and leader epoch."""
NOT_FOUND: Found = (-1, -1, -1)
OFFSET_NOT_AVAILABLE_SINCE = 5


def handle_list_offsets(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Generator[None, None, ListOffsetsResponse | asyncio.Future[ListOffsetsResponse]]:
    answer = _answer(request, context)
    is_long = is_many(len(topic.partitions) for topic in request.topics) or _has_search(request)
    return until_wait(answer) if is_long else at_once(answer)


def _has_search(request: ListOffsetsRequest) -> bool:
    return any(_is_search(each) for topic in request.topics for each in topic.partitions)


def _is_search(asked: ListOffsetsPartition) -> bool:
    """Return True if record batches must be decoded, which takes longer than many end offsets."""
    return asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP


def _answer(request: ListOffsetsRequest, context: RequestContext) -> Steps[ListOffsetsResponse]:
    repeats = yield from repeated(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    answered: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        partitions = answered.setdefault(topic.name, {})
        if not topic.partitions:
            yield None
        for chunk in chunks(topic.partitions):
            yield None
            for asked in chunk:
                index = asked.partition_index
                if index not in partitions:
                    is_repeated = (topic.name, index) in repeats
                    partitions[index] = yield from _partition(topic.name, asked, request, context, is_repeated)
    topics = yield from mapped(answered.items(), _topic)
    return ListOffsetsResponse(topics=topics)


def _topic(answered: tuple[str, dict[int, ListOffsetsPartitionResponse]]) -> ListOffsetsTopicResponse:
    name, partitions = answered
    return ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))


def _partition(
    topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, context: RequestContext, is_repeated: bool
) -> Steps[ListOffsetsPartitionResponse]:
    try:
        if not context.allows_topic(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if (
            asked.timestamp < 0
            and _SINCE.get(asked.timestamp, 0 if asked.timestamp >= EARLIEST else 999) > context.version
        ):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        timestamp, offset, epoch = yield from _find(topic, asked, request, context)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.version < OFFSET_NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
    except (CompressionError, InvalidRecordsError) as error:
        # A client compressed the records wrongly. They were stored as they arrived, and only requests that read them
        # fail.
        subject = "look-up", topic, asked.partition_index
        context.services.messages.log(
            logging.WARNING, subject, "Cannot look into %s-%d: %s", topic, asked.partition_index, error
        )
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_SERVER_ERROR
        )
    except DiskFailure:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    response = ListOffsetsPartitionResponse(partition_index=asked.partition_index, timestamp=timestamp, offset=offset)
    if context.version >= 4:
        response.leader_epoch = epoch
    return response


def _find(
    topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, context: RequestContext
) -> Steps[Found]:
    def partition_now() -> Partition:
        partition: Partition = context.services.partitions.find(
            topic, asked.partition_index, can_follow=request.replica_id == DEBUGGER
        )
        partition.check_epoch(asked.current_leader_epoch)
        return partition

    if not _is_search(asked):
        return _known(partition_now(), asked.timestamp, request)
    yield None
    return (yield from _search(partition_now, asked.timestamp, request, context))


def _known(partition: Partition, timestamp: int, request: ListOffsetsRequest) -> Found:
    """Return the offset for a timestamp that needs no search."""
    log = partition.log
    if timestamp == LATEST:
        if request.replica_id == CONSUMER:
            partition.check_end_known()
        return -1, _end_offset(partition, request), partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.leader_epochs.epoch_of(log.log_start_offset)
    return NOT_FOUND


def _search(
    partition_now: Callable[[], Partition], timestamp: int, request: ListOffsetsRequest, context: RequestContext
) -> Steps[Found]:
    end = _end_offset(partition_now(), request)
    search = TimestampSearch(lambda: partition_now().log, context.services.large_batches)
    found = yield from (search.largest() if timestamp == MAX_TIMESTAMP else search.first(timestamp))
    partition = partition_now()
    if found is None or found.offset >= end:
        if request.replica_id == CONSUMER:
            partition.check_end_known()
        return NOT_FOUND
    return found.timestamp, found.offset, found.leader_epoch


def _end_offset(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the end of what the client may read: high watermark, last stable offset or log end offset."""
    is_consumer = request.replica_id == CONSUMER
    return partition.end_offset(request.isolation_level) if is_consumer else partition.log.log_end_offset


API = Api(request=ListOffsetsRequest, response=ListOffsetsResponse, handle=handle_list_offsets)
