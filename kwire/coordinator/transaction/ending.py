"""EndTxn: the decision, its retry, and the completion after all markers are written.

With transaction.version 2, every end increments the epoch. So a request with the current epoch is a new EndTxn, and one
with the previous epoch is a retry. The outcome depends on the stored state and on the epoch of the request:

                      abort                       commit
    epoch             previous       current      previous       current
    Empty             fenced         new end      fenced         invalid state
    Ongoing           fenced         new end      fenced         new end
    PrepareAbort      concurrent     concurrent   invalid state  concurrent
    PrepareCommit     invalid state  concurrent   concurrent     concurrent
    CompleteAbort     retry          new end      invalid state  invalid state
    CompleteCommit    invalid state  new end      retry          invalid state

"retry" returns the stored result, "concurrent" is CONCURRENT_TRANSACTIONS. An abort without an open transaction also
increments the epoch, so that batches of the old epoch that arrive later are rejected. The producer receives the new
epoch once its decision is committed, so its next EndTxn may arrive before all markers of the last transaction are
written. That request receives CONCURRENT_TRANSACTIONS. In the classic version, a complete transaction accepts only a
retry with the same decision.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.coordinator.transaction.states import NOT_OPEN, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import (
    CLASSIC,
    EPOCH_MAX,
    Transaction,
)
from kwire.protocol.control_records import EPOCH_PER_TRANSACTION
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_S = TransactionState
_PREPARED = {True: _S.PREPARE_COMMIT, False: _S.PREPARE_ABORT}
_COMPLETE = {True: _S.COMPLETE_COMMIT, False: _S.COMPLETE_ABORT}


def prepared_end_classic(
    transaction: Transaction | None, producer_id: int, epoch: int, *, is_commit: bool, now_ms: int
) -> Transaction:
    """Return the transaction with its decision, or unchanged if it has already ended that way. Raises KafkaError."""
    if transaction is None or transaction.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != epoch or epoch == EPOCH_MAX:  # the last epoch is never given to a client
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is _S.ONGOING:
        return _decided(transaction, is_commit=is_commit, client_version=CLASSIC, now_ms=now_ms)
    return _repeated(transaction, is_commit=is_commit)


def needs_next_producer_id(transaction: Transaction | None) -> bool:
    """Return True if an EndTxn with transaction.version 2 uses the last epoch."""
    return transaction is not None and transaction.state not in PREPARED and transaction.is_exhausted


def prepared_end(
    transaction: Transaction | None,
    producer_id: int,
    epoch: int,
    *,
    is_commit: bool,
    next_producer_id: int = NO_PRODUCER_ID,
    now_ms: int,
) -> Transaction:
    """Return the transaction with its decision and its next epoch, or unchanged for a retry (transaction.version 2).

    Pass next_producer_id only if it is needed. Raises KafkaError.
    """
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_prepared = transaction.state in PREPARED
    if is_prepared and _continues(transaction, producer_id, epoch):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    used_the_last_epoch = (
        transaction.previous_producer_id == producer_id and epoch == EPOCH_MAX - 1 and transaction.producer_epoch == 0
    )
    if transaction.producer_id != producer_id and not used_the_last_epoch:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_repeated = transaction.producer_epoch == epoch + 1 or used_the_last_epoch
    is_current = transaction.producer_epoch == epoch < EPOCH_MAX and transaction.producer_id == producer_id
    can_repeat = is_prepared or transaction.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
    if not (is_repeated and can_repeat) and not (is_current and not is_prepared):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_repeated:
        return _repeated(transaction, is_commit=is_commit)
    if is_commit and transaction.state is not _S.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return _decided(
        replace(
            transaction,
            producer_epoch=epoch + 1,
            last_producer_epoch=epoch,
            next_producer_id=next_producer_id,
            start_ms=now_ms if transaction.state in NOT_OPEN else transaction.start_ms,
        ),
        is_commit=is_commit,
        client_version=EPOCH_PER_TRANSACTION,
        now_ms=now_ms,
    )


def fencing_needs_producer_id(transaction: Transaction, version: int) -> bool:
    """Return True if an abort by the coordinator uses the last epoch."""
    return version >= EPOCH_PER_TRANSACTION and transaction.is_exhausted


def fenced(
    transaction: Transaction, *, version: int, next_producer_id: int = NO_PRODUCER_ID, now_ms: int
) -> Transaction:
    """Return an open transaction after an abort by the coordinator, which fences its producer.

    Pass next_producer_id only if it is needed.
    """
    assert transaction.state is _S.ONGOING
    assert transaction.producer_epoch < EPOCH_MAX
    return _decided(
        replace(
            transaction,
            producer_epoch=transaction.producer_epoch + 1,
            next_producer_id=next_producer_id,
            last_producer_epoch=(transaction.producer_epoch if version >= EPOCH_PER_TRANSACTION else NO_PRODUCER_EPOCH),
        ),
        is_commit=False,
        client_version=EPOCH_PER_TRANSACTION if version >= EPOCH_PER_TRANSACTION else CLASSIC,
        now_ms=now_ms,
    )


def completed(transaction: Transaction, *, now_ms: int) -> Transaction:
    """Return the transaction after every partition has its marker."""
    changes_id = transaction.next_producer_id != NO_PRODUCER_ID
    return replace(
        transaction,
        producer_id=transaction.next_producer_id if changes_id else transaction.producer_id,
        producer_epoch=0 if changes_id else transaction.producer_epoch,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=_COMPLETE[transaction.state is _S.PREPARE_COMMIT],
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _continues(transaction: Transaction, producer_id: int, epoch: int) -> bool:
    """Return True if the producer continues with this id and epoch after the decided transaction."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return (producer_id, epoch) == (transaction.next_producer_id, 0)
    return (producer_id, epoch) == (transaction.producer_id, transaction.producer_epoch) and epoch < EPOCH_MAX


def _decided(transaction: Transaction, *, is_commit: bool, client_version: int, now_ms: int) -> Transaction:
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        state=_PREPARED[is_commit],
        client_version=client_version,
        last_update_ms=now_ms,
    )


def _repeated(transaction: Transaction, *, is_commit: bool) -> Transaction:
    """Return the transaction unchanged if it has ended in the requested way. Raises KafkaError otherwise."""
    if transaction.state is _COMPLETE[is_commit]:
        return transaction
    if transaction.state is _PREPARED[is_commit]:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)
