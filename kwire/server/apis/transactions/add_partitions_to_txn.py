"""AddPartitionsToTxn: add partitions to a transaction, or verify for brokers that it contains them.

Up to version 3 a client sends its own transaction. From version 4 on brokers send many transactions at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.chunks import CHUNK, Pieces, chunks, finished_in_pieces, mapped_by_group, mapped_in_pieces
from kwire.cluster.security.acls import ResourceType
from kwire.cluster.topic_names import INTERNAL_TOPICS
from kwire.coordinator.answers import Answer, when_answered, when_many_answered
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC, TopicPartition
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.repeats import once_each
from kwire.server.apis.transactions.errors import code_for_version, rejecting
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext

MANY_SINCE = 4
FENCED_SINCE = 2

Codes = Mapping[TopicPartition, ErrorCode]


def handle_add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> Pieces[Answer[AddPartitionsToTxnResponse]]:
    if context.version >= MANY_SINCE:
        return (yield from _handle_many(request, context))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )

    def finish(codes: Codes) -> Pieces[AddPartitionsToTxnResponse]:
        results = yield from _results(transaction.topics, codes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    added = yield from _codes(transaction, context)
    return (yield from finished_in_pieces(when_answered(added, finish)))


def _handle_many(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> Pieces[Answer[AddPartitionsToTxnResponse]]:
    if not context.allows_cluster():
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    # As in Kafka, the last entry of a repeated transactional id counts.
    transactions = list({each.transactional_id: each for each in request.transactions}.values())

    def result(each: tuple[AddPartitionsToTxnTransaction, Codes]) -> Pieces[AddPartitionsToTxnResult]:
        transaction, codes = each
        results = yield from _results(transaction.topics, codes)
        return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)

    def finish(all_codes: list[Codes]) -> Pieces[AddPartitionsToTxnResponse]:
        results = yield from mapped_in_pieces(zip(transactions, all_codes, strict=True), result)
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    answers = yield from mapped_in_pieces(transactions, lambda transaction: _codes(transaction, context))
    return (yield from when_many_answered(answers, finish))


def _codes(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> Pieces[Answer[Codes]]:
    """Return the error code of each partition: either all are added, or none."""
    asked: list[TopicPartition] = []
    for some in chunks((topic.name, index) for topic in transaction.topics for index in topic.partitions):
        asked += some
        if len(some) == CHUNK:
            yield
    rejected = yield from _rejected(transaction, asked, context)
    if rejected:
        return dict.fromkeys(asked, ErrorCode.OPERATION_NOT_ATTEMPTED) | rejected

    def all_rejected(error: KafkaError) -> Codes:
        return dict.fromkeys(asked, code_for_version(error.code, context.version >= FENCED_SINCE))

    def added(_: None) -> Codes:
        return dict.fromkeys(asked, ErrorCode.NONE)

    coordinator = context.services.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return rejecting(
            lambda: coordinator.verify(transaction.transactional_id, producer, asked), lambda codes: codes, all_rejected
        )
    version = EPOCH_PER_TRANSACTION if context.version >= MANY_SINCE else CLASSIC
    return rejecting(
        lambda: coordinator.add(transaction.transactional_id, producer, asked, client_version=version),
        added,
        all_rejected,
    )


def _rejected(
    transaction: AddPartitionsToTxnTransaction, asked: list[TopicPartition], context: RequestContext
) -> Pieces[dict[TopicPartition, ErrorCode]]:
    """Return the codes of partitions that are not authorized or do not exist."""
    if not context.allows(ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = context.services.image.topics
    rejected = {}
    for some in chunks(asked):
        for name, index in some:
            image = topics.get(name)
            if context.version < MANY_SINCE and (name in INTERNAL_TOPICS or not context.allows_topic(name)):
                rejected[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is None or not 0 <= index < len(image.partitions):
                rejected[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(some) == CHUNK:
            yield
    return rejected


def _results(topics: list[AddPartitionsToTxnTopic], codes: Codes) -> Pieces[list[AddPartitionsToTxnTopicResult]]:
    """Return the codes by topic, each partition once."""
    indexes = yield from once_each((topic.name, topic.partitions) for topic in topics)
    return (
        yield from mapped_by_group(
            indexes.items(),
            lambda topic: topic[1],
            lambda topic, index: AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=codes[topic[0], index]
            ),
            lambda topic, results: AddPartitionsToTxnTopicResult(name=topic[0], results_by_partition=results),
        )
    )


API = Api(request=AddPartitionsToTxnRequest, response=AddPartitionsToTxnResponse, handle=handle_add_partitions_to_txn)
