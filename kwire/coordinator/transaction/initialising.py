"""InitProducerId's rules for a transactional id: the next epoch, which fences whoever had the one before (KIP-360)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kwire.coordinator.transaction.ending import fencing_needs_producer_id
from kwire.coordinator.transaction.states import AT_REST, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import NO_TIMESTAMP, Transaction, is_exhausted
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Producer(NamedTuple):
    """What a client says it is, or is told to be."""

    producer_id: int
    epoch: int


def check_may_initialise(transaction: Transaction, expected: Producer | None) -> None:
    """Raises KafkaError if this client must not, or cannot yet, have a new epoch."""
    if expected is not None and not _is_its_own(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def needs_producer_id(transaction: Transaction | None, expected: Producer | None, version: int) -> bool:
    """Whether a new producer id is wanted: for a new transactional id, or when the epochs are used up."""
    if transaction is None:
        return True
    if transaction.state is TransactionState.ONGOING:
        return fencing_needs_producer_id(transaction, version)
    return _changes_producer_id(transaction, expected)


def _changes_producer_id(transaction: Transaction, expected: Producer | None) -> bool:
    is_the_last = expected is None or expected.epoch == transaction.producer_epoch
    return transaction.state in AT_REST and transaction.is_exhausted and is_the_last


def new_transaction(transactional_id: str, producer_id: int, *, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id that was not known."""
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
    """The transactional id with its next epoch. One at rest; new_producer_id only if it is needed.

    Raises KafkaError PRODUCER_FENCED if the client's epoch is neither the present one nor that of a repeated request.
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


def _is_its_own(transaction: Transaction, expected: Producer) -> bool:
    """The id in use; or the one before it, with the epoch that made the change due, asked for once more."""
    if expected.producer_id == transaction.producer_id:
        return True
    return expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch)


def _next_epoch(transaction: Transaction, expected: Producer | None) -> tuple[int, int]:
    """(epoch, the one before it) to go on with."""
    present = transaction.producer_epoch
    if expected is None:
        return present + 1, NO_PRODUCER_EPOCH
    if expected.epoch == present:
        return present + 1, present
    if expected.epoch == transaction.last_producer_epoch:
        return present, transaction.last_producer_epoch  # it did not hear the answer
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
