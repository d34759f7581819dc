"""AddPartitionsToTxn: add the partitions to which a transaction will write (KIP-98).

Clients send versions up to 3, for one transaction. Later ones are sent by brokers, for many transactions at once, or to
verify that a transaction contains a partition before an append.

2  PRODUCER_FENCED may be returned (KIP-588)
3  flexible
4  many transactions; verification only (KIP-890)
5  TRANSACTION_ABORTABLE may be returned (KIP-890)
"""

from kwire.protocol.primitives import ProducerId, TopicName, TransactionalId, boolean, int16, int32
from kwire.protocol.schema import field, message, struct


@struct
class AddPartitionsToTxnTopic:
    name: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: TransactionalId = field("4+")
    producer_id: ProducerId = field("4+")
    producer_epoch: int16 = field("4+")
    verify_only: boolean = field("4+")
    """True to check if the partitions are in the transaction, without adding any."""
    topics: list[AddPartitionsToTxnTopic] = field("4+")


@message(key=24, kind="request", versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: TransactionalId = field("0-3")
    v3_and_below_producer_id: ProducerId = field("0-3")
    v3_and_below_producer_epoch: int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int32 = field("0+")
    partition_error_code: int16 = field("0+")


@struct
class AddPartitionsToTxnTopicResult:
    name: TopicName = field("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field("0+")


@struct
class AddPartitionsToTxnResult:
    transactional_id: TransactionalId = field("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+")


@message(key=24, kind="response", versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")
