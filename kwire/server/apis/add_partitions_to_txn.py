"""AddPartitionsToTxn: partitions that a transaction is going to write into; or, asked by brokers, whether it has them.

Up to version 3 a client asks for its own transaction. From version 4 on brokers ask, for many at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.cluster.topic_names import INTERNAL_TOPICS
from kwire.coordinator.answers import Answer, when_all_answered
from kwire.coordinator.transaction.initialising import Producer
from kwire.coordinator.transaction.transaction import CLASSIC, EPOCH_PER_TRANSACTION, TopicPartition
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
from kwire.server.authorization import ResourceType
from kwire.server.context import RequestContext
from kwire.server.dispatch import Api
from kwire.server.transactional_ids import refusing, told

MANY_SINCE = 4
FENCED_SINCE = 2

Codes = Mapping[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> Answer[AddPartitionsToTxnResponse]:
    if context.version >= MANY_SINCE:
        return _handle_many(request, context)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return when_all_answered(
        [_codes(transaction, context)],
        lambda codes: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(transaction.topics, codes[0])),
    )


def _handle_many(request: AddPartitionsToTxnRequest, context: RequestContext) -> Answer[AddPartitionsToTxnResponse]:
    if not context.allows_cluster():
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    # Of an id that is named again the last one counts, as in Kafka.
    transactions = list({each.transactional_id: each for each in request.transactions}.values())

    def finish(all_codes: list[Codes]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id, topic_results=_results(transaction.topics, codes)
                )
                for transaction, codes in zip(transactions, all_codes, strict=True)
            ]
        )

    return when_all_answered([_codes(transaction, context) for transaction in transactions], finish)


def _codes(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> Answer[Codes]:
    """What comes of each partition: all are added, or none."""
    asked = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused = _refused(transaction, asked, context)
    if refused:
        return {key: refused.get(key, ErrorCode.OPERATION_NOT_ATTEMPTED) for key in asked}

    def all_refused(error: KafkaError) -> Codes:
        return dict.fromkeys(asked, told(error.code, context.version >= FENCED_SINCE))

    def added(_: None) -> Codes:
        return dict.fromkeys(asked, ErrorCode.NONE)

    coordinator = context.services.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return refusing(
            lambda: coordinator.verify(transaction.transactional_id, producer, asked), lambda codes: codes, all_refused
        )
    version = EPOCH_PER_TRANSACTION if context.version >= MANY_SINCE else CLASSIC
    return refusing(
        lambda: coordinator.add(transaction.transactional_id, producer, asked, client_version=version),
        added,
        all_refused,
    )


def _refused(
    transaction: AddPartitionsToTxnTransaction, asked: list[TopicPartition], context: RequestContext
) -> dict[TopicPartition, ErrorCode]:
    """Those that must not, or cannot, be added."""
    if not context.allows(ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = context.services.image.topics
    refused = {}
    for name, index in asked:
        image = topics.get(name)
        if context.version < MANY_SINCE and (name in INTERNAL_TOPICS or not context.allows_topic(name)):
            refused[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image is None or not 0 <= index < len(image.partitions):
            refused[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _results(topics: list[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, dict[int, ErrorCode]] = {}
    for topic in topics:
        found = by_topic.setdefault(topic.name, {})
        for index in topic.partitions:
            found[index] = codes[topic.name, index]
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index, code in found.items()
            ],
        )
        for name, found in by_topic.items()
    ]


API = Api(request=AddPartitionsToTxnRequest, response=AddPartitionsToTxnResponse, handle=handle)
