"""DescribeTransactions: state, producer and partitions of transactional ids (KIP-664)."""

from kwire.protocol.primitives import ProducerId, TopicName, TransactionalId, int16, int32, int64, string
from kwire.protocol.schema import field, message, struct


@message(key=65, kind="request", versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[TransactionalId] = field("0+")


@struct
class DescribeTransactionsTopicData:
    topic: TopicName = field("0+")
    partitions: list[int32] = field("0+")


@struct
class DescribeTransactionsTransactionState:
    error_code: int16 = field("0+")
    transactional_id: TransactionalId = field("0+")
    transaction_state: string = field("0+")
    transaction_timeout_ms: int32 = field("0+")
    transaction_start_time_ms: int64 = field("0+")
    """-1 if no transaction is open."""
    producer_id: ProducerId = field("0+")
    producer_epoch: int16 = field("0+")
    topics: list[DescribeTransactionsTopicData] = field("0+")
    """For an ending transaction, only the partitions that still need a marker."""


@message(key=65, kind="response", versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int32 = field("0+")
    transaction_states: list[DescribeTransactionsTransactionState] = field("0+")
