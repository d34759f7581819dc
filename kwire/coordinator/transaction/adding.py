"""AddPartitionsToTxn, AddOffsetsToTxn and verification: rules for the partitions of a transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kwire.coordinator.transaction.states import NOT_OPEN, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import EPOCH_MAX, TopicPartition, Transaction
from kwire.protocol.error_codes import ErrorCode, KafkaError


def check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> Transaction:
    """Return the transaction if it belongs to this producer and is not ending. Raises KafkaError.

    The state is checked first, as in Kafka: while a transaction ends, its producer may already use the next id.
    """
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != epoch or epoch == EPOCH_MAX:  # the last epoch is never given to a client
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return transaction


def with_partitions(
    transaction: Transaction, partitions: Collection[TopicPartition], *, now_ms: int, client_version: int
) -> Transaction:
    """Return the transaction with these partitions, begun if none was open; unchanged if it contains all of them."""
    if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
        return transaction
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        state=TransactionState.ONGOING,
        partitions=transaction.partitions.union(partitions),
        start_ms=now_ms if transaction.state in NOT_OPEN else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )
