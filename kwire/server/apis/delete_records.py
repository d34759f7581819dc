"""DeleteRecords: move a partition's log start; -1 stands for its high watermark (KIP-107).

The answer comes when every live replica has moved its own, so that no later leader serves what was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kwire.cluster.partition import Partition
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
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

Waiting = list[tuple[Partition, int, DeleteRecordsPartitionResult]]
"""A partition whose followers are yet to follow, its new log start, and the answer so far."""


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    waiting: Waiting = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_partition(topic.name, partition, context, waiting) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    return _when_followed(response, waiting, request.timeout_ms) if waiting else response


async def _when_followed(response: DeleteRecordsResponse, waiting: Waiting, timeout_ms: int) -> DeleteRecordsResponse:
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    for partition, log_start_offset, result in waiting:
        try:
            async with asyncio.timeout_at(deadline):
                await _Following(partition, log_start_offset).future
        except TimeoutError:
            _refuse(result, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            _refuse(result, error.code)
        else:
            result.low_watermark = partition.low_watermark
    return response


class _Following:
    """Waits until all live replicas have moved their log start as far."""

    def __init__(self, partition: Partition, log_start_offset: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partition = partition
        self._log_start_offset = log_start_offset
        self.future.add_done_callback(lambda _: partition.stop_waiting(self))
        partition.wait(self, for_tail=True)
        self.more_data(0)

    def more_data(self, size: int) -> None:
        if self.future.done():
            return
        if not self._partition.is_led:
            self.future.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif self._partition.low_watermark >= self._log_start_offset:
            self.future.set_result(None)


def _refuse(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
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
        if "delete" not in partition.log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        log_start_offset = partition.delete_records_before(asked.offset)
    except KafkaError as error:
        _refuse(result, error.code)
    except DiskFailure:
        _refuse(result, ErrorCode.KAFKA_STORAGE_ERROR)
    else:
        result.low_watermark = partition.low_watermark
        if result.low_watermark < log_start_offset:
            waiting.append((partition, log_start_offset, result))
    return result


API = Api(request=DeleteRecordsRequest, response=DeleteRecordsResponse, handle=handle)
