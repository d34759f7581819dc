"""DeleteRecords: advance the log start of a partition; -1 stands for its high watermark (KIP-107).

The response waits until every live replica has advanced its log start, so that no later leader serves deleted records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial

from kwire.chunks import Pieces, mapped_by_group
from kwire.cluster.partitions.commits import until
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.topic_names import INTERNAL_TOPICS
from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

Waiting = list[tuple[Partition, int, DeleteRecordsPartitionResult]]
"""Partition whose followers have not advanced yet, its new log start, and its part of the response."""


def handle_delete_records(
    request: DeleteRecordsRequest, context: RequestContext
) -> Pieces[DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]]:
    waiting: Waiting = []
    topics = yield from mapped_by_group(
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, partition: _partition(topic.name, partition, context, waiting),
        lambda topic, results: DeleteRecordsTopicResult(name=topic.name, partitions=results),
    )
    response = DeleteRecordsResponse(topics=topics)
    # A task, because only the wait is left: it is cancelled when the client disconnects.
    return asyncio.ensure_future(_when_followed(response, waiting, request.timeout_ms)) if waiting else response


async def _when_followed(response: DeleteRecordsResponse, waiting: Waiting, timeout_ms: int) -> DeleteRecordsResponse:
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    for partition, log_start_offset, result in waiting:
        try:
            async with asyncio.timeout_at(deadline):
                await until(partition, partial(_have_followed, partition, log_start_offset), for_log_end=True)
        except TimeoutError:
            _reject(result, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            _reject(result, error.code)
        else:
            result.low_watermark = partition.low_watermark
    return response


def _have_followed(partition: Partition, log_start_offset: int) -> bool:
    """Return True if all live replicas have advanced their log start, which only the leader of the partition knows."""
    is_here = partition.is_led and not partition.is_removed
    return is_here and partition.low_watermark >= log_start_offset


def _reject(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    result.low_watermark = -1
    result.error_code = code


def _partition(
    topic: str, asked: DeleteRecordsPartition, context: RequestContext, waiting: Waiting
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        if not context.allows_topic(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.find(topic, asked.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}.")
        config = partition.log.config
        if config.is_compacted and not config.is_deleted:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        log_start_offset = partition.delete_records_before(asked.offset)
    except KafkaError as error:
        _reject(result, error.code)
    except DiskFailure:
        _reject(result, ErrorCode.KAFKA_STORAGE_ERROR)
    else:
        result.low_watermark = partition.low_watermark
        if result.low_watermark < log_start_offset:
            waiting.append((partition, log_start_offset, result))
    return result


API = Api(request=DeleteRecordsRequest, response=DeleteRecordsResponse, handle=handle_delete_records)
