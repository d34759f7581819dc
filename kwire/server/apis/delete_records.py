"""DeleteRecords: move a partition's log start; -1 stands for its high watermark (KIP-107)."""

from __future__ import annotations

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


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_partition(topic.name, partition, context) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _partition(topic: str, asked: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    try:
        if not context.allows_topic(topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.find(topic, asked.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}.")
        if "delete" not in partition.log.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        low_watermark = partition.delete_records_before(asked.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=error.code
        )
    except DiskFailure:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low_watermark)


API = Api(request=DeleteRecordsRequest, response=DeleteRecordsResponse, handle=handle)
