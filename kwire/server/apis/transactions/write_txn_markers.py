"""WriteTxnMarkers: end transactions in partitions that this broker leads; for coordinators and kafka-transactions."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.chunks import CHUNK, Pieces, chunks, mapped_in_pieces
from kwire.cluster.security.acls import Operation
from kwire.coordinator.answers import Answer, when_many_answered
from kwire.coordinator.markers import Outcomes, TopicPartition, TransactionMarker
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.protocol.records import NO_PRODUCER_EPOCH
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext


def handle_write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> Pieces[Answer[WriteTxnMarkersResponse]]:
    def finish(all_outcomes: list[Outcomes]) -> Pieces[WriteTxnMarkersResponse]:
        """Return a response with each producer once, as in Kafka, and without producers that have no partition."""
        by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for some in chunks(zip(request.markers, all_outcomes, strict=True)):
            for marker, outcomes in some:
                if outcomes:
                    by_producer.setdefault(marker.producer_id, {}).update(outcomes)
            if len(some) == CHUNK:
                yield
        results = yield from mapped_in_pieces(by_producer.items(), lambda each: _result(*each))
        return WriteTxnMarkersResponse(markers=results)

    answers = yield from mapped_in_pieces(request.markers, lambda marker: _write(marker, context))
    return (yield from when_many_answered(answers, finish))


def _write(marker: WritableTxnMarker, context: RequestContext) -> Pieces[Answer[Outcomes]]:
    partitions = dict.fromkeys([(topic.name, index) for topic in marker.topics for index in topic.partition_indexes])
    if not (context.allows_cluster_to(Operation.ALTER, is_requested=False) or context.allows_cluster()):
        return dict.fromkeys(partitions, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return (yield from _rejected(marker, partitions, context))
    return (
        yield from context.services.markers.write_in_pieces(
            TransactionMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            ),
            partitions,
        )
    )


def _rejected(
    marker: WritableTxnMarker, partitions: Iterable[TopicPartition], context: RequestContext
) -> Pieces[Outcomes]:
    """Return the errors for an invalid producer id or epoch, as in Kafka.

    Negative producer id, or epoch -1: UNKNOWN_SERVER_ERROR for all partitions if this broker has one of them, else
    UNKNOWN_TOPIC_OR_PARTITION for all. Epoch below -1 of a valid producer id: INVALID_PRODUCER_EPOCH for the partitions
    that this broker has, UNKNOWN_TOPIC_OR_PARTITION for the others.
    """
    here: list[TopicPartition] = []
    for some in chunks(partitions):
        here += [each for each in some if context.services.partitions.get(*each) is not None]
        if len(some) == CHUNK:
            yield
    if marker.producer_id >= 0 and marker.producer_epoch < NO_PRODUCER_EPOCH:
        elsewhere = dict.fromkeys(partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return elsewhere | dict.fromkeys(here, ErrorCode.INVALID_PRODUCER_EPOCH)
    code = ErrorCode.UNKNOWN_SERVER_ERROR if here else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return dict.fromkeys(partitions, code)


def _result(producer_id: int, outcomes: Outcomes) -> Pieces[WritableTxnMarkerResult]:
    by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for some in chunks(outcomes.items()):
        for (topic, index), code in some:
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            by_topic.setdefault(topic, []).append(result)
        if len(some) == CHUNK:
            yield
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=results) for name, results in by_topic.items()],
    )


API = Api(request=WriteTxnMarkersRequest, response=WriteTxnMarkersResponse, handle=handle_write_txn_markers)
