"""InitProducerId for a transactional id: returns the next epoch, which fences the previous producer (KIP-360)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kwire.coordinator.transaction.ending import fencing_needs_producer_id
from kwire.coordinator.transaction.states import NOT_OPEN, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import NO_TIMESTAMP, Transaction, is_exhausted
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Producer(NamedTuple):
    """Producer id and epoch, from a client's request or for its response."""

    producer_id: int
    epoch: int


def check_can_initialise(transaction: Transaction, expected: Producer | None) -> None:
    """Raise KafkaError if this client must not, or not yet, receive a new epoch."""
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _is_same_producer(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def needs_producer_id(transaction: Transaction | None, expected: Producer | None, version: int) -> bool:
    """Return True if a new producer id is needed: for a new transactional id, or if the epochs are exhausted."""
    if transaction is None:
        return True
    if transaction.state is TransactionState.ONGOING:
        return fencing_needs_producer_id(transaction, version)
    return _changes_producer_id(transaction, expected)


def _changes_producer_id(transaction: Transaction, expected: Producer | None) -> bool:
    is_current = expected is None or expected.epoch == transaction.producer_epoch
    return transaction.state in NOT_OPEN and transaction.is_exhausted and is_current


def new_transaction(transactional_id: str, producer_id: int, *, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the initial state of a new transactional id."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        previous_producer_id=producer_id,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=now_ms,
    )


def initialised(
    transaction: Transaction, expected: Producer | None, *, new_producer_id: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """Return a transactional id without an open transaction, with its next epoch. Pass new_producer_id only if needed.

    Raises KafkaError PRODUCER_FENCED if the client's epoch is neither the current one nor that of a retried request.
    """
    if _changes_producer_id(transaction, expected):
        producer_id, epoch = new_producer_id, 0
        last_epoch = NO_PRODUCER_EPOCH if expected is None else transaction.producer_epoch
    else:
        producer_id, (epoch, last_epoch) = transaction.producer_id, _next_epoch(transaction, expected)
    return replace(
        transaction,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def _is_same_producer(transaction: Transaction, expected: Producer) -> bool:
    """Return True if the producer id is the current one, or, in a retry, the previous one with an exhausted epoch."""
    if expected.producer_id == transaction.producer_id:
        return True
    return expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch)


def _next_epoch(transaction: Transaction, expected: Producer | None) -> tuple[int, int]:
    """Return the next epoch and the one before it."""
    current = transaction.producer_epoch
    if expected is None:
        return current + 1, NO_PRODUCER_EPOCH
    if expected.epoch == current:
        return current + 1, current
    if expected.epoch == transaction.last_producer_epoch:
        return current, transaction.last_producer_epoch  # a retry after a lost response
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
