"""Produce: append record batches to partitions led by this broker.

All appending happens before anything is waited for, so that the batches of one connection reach their partitions in
the order in which they were sent. With acks=0 nothing is answered; if an append failed, the connection is closed
instead, which is all that such a client can be told.
"""

from __future__ import annotations

import logging

from kwire.cluster.partition import Partition
from kwire.log.disk import DiskFailure
from kwire.log.partition_log import AppendResult
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.server.authorization import ResourceType
from kwire.server.connection import CloseConnection
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api

logger = logging.getLogger("kwire.server.produce")

TOPIC_IDS_SINCE = 13
_ACKS = (-1, 0, 1)


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    refused = _refusal(request, context)
    failed = 0
    responses = []
    for topic in request.topic_data:
        response = _topic(topic, request.acks, context, refused)
        responses.append(response)
        if request.acks == 0:
            failed = failed or _first_error(response)
    if request.acks == 0:
        if failed:
            raise CloseConnection(f"produced with acks=0 what cannot be stored ({ErrorCode(failed).name})")
        return None
    return ProduceResponse(responses=responses)


def _refusal(request: ProduceRequest, context: RequestContext) -> KafkaError | None:
    """Why the whole request is refused."""
    if request.acks not in _ACKS:
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    transactional_id = request.transactional_id
    if transactional_id is not None and not context.allows(ResourceType.TRANSACTIONAL_ID, transactional_id):
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _topic(
    topic: TopicProduceData, acks: int, context: RequestContext, refused: KafkaError | None
) -> TopicProduceResponse:
    name: str | None = topic.name
    if context.version >= TOPIC_IDS_SINCE:
        name = context.services.image.topic_names.get(topic.topic_id)
        if name is None:
            refused = refused or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if name is not None and refused is None and not context.allows_topic(name):
        refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[_partition(name or "", data, acks, context, refused) for data in topic.partition_data],
    )


def _partition(
    topic: str, data: PartitionProduceData, acks: int, context: RequestContext, refused: KafkaError | None
) -> PartitionProduceResponse:
    try:
        if refused is not None:
            raise refused
        partition = context.services.partitions.find(topic, data.index)
        result = _append(partition, data, acks)
    except KafkaError as error:
        return _error(data.index, error)
    except DiskFailure as failure:
        logger.error("%s-%d: %s", topic, data.index, failure)  # noqa: TRY400 the failure says all
        return _error(data.index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    return PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )


def _append(partition: Partition, data: PartitionProduceData, acks: int) -> AppendResult:
    if not data.records:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            "Produce requests must have exactly one record batch per partition",
        )
    return partition.append(memoryview(data.records), acks=acks)


def _error(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=why)
            for record, why in error.record_errors
        ],
        error_message=error.message,
    )


def _first_error(response: TopicProduceResponse) -> int:
    return next((partition.error_code for partition in response.partition_responses if partition.error_code), 0)


API = Api(request=ProduceRequest, response=ProduceResponse, handle=handle, advertised_min=0, pipelined=True)
