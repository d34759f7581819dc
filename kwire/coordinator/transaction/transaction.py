"""Transactional id: its state in the coordinator, and the invariants of its changes.

A transaction is a value. The rules (initialising, adding, ending) derive the next one, the shard stores it, and replay
replaces the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwire.coordinator.transaction.states import PREPARED, TransactionState, can_follow
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TopicPartition = tuple[str, int]

NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 2**15 - 1
CLASSIC: Final = 0
"""Transaction version of clients that keep their epoch from one transaction to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """State of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Previous epoch, with which a client may retry InitProducerId. It is not stored, as in Kafka."""
    previous_producer_id: int = NO_PRODUCER_ID
    """Producer id of the previous state; after a change of the id, a client may retry with it."""
    next_producer_id: int = NO_PRODUCER_ID
    """Producer id after this transaction, if the transaction has used the last epoch."""
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int
    client_version: int = CLASSIC
    """Transaction version, set when partitions are added, by EndTxn, and by an abort of the coordinator.

    The markers have it too.
    """

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no epoch left for a client: the last one is reserved for fencing."""
        return is_exhausted(self.producer_epoch)


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


def check_step(before: Transaction | None, after: Transaction) -> None:
    """Assert the invariants of a change from one stored state to the next."""
    assert after.producer_id >= 0, f"{after} has no producer"
    assert 0 <= after.producer_epoch <= EPOCH_MAX, f"{after} has no epoch"
    assert after.state is TransactionState.ONGOING or after.state in PREPARED or not after.partitions, (
        f"{after} has partitions, but its state has no transaction"
    )
    if before is None:
        assert after.state is TransactionState.EMPTY, f"a transactional id begins as {after}"
        return
    assert can_follow(before.state, after.state), f"{after} cannot follow {before}"
    assert after.previous_producer_id == before.producer_id, f"{after} does not name the producer of {before}"
    if after.producer_id == before.producer_id:
        assert after.producer_epoch >= before.producer_epoch, f"the epoch of {before} goes back in {after}"
    else:
        assert after.producer_epoch == 0, f"the new producer of {after} has an epoch already"
    if after.state is TransactionState.ONGOING or after.state in PREPARED:
        assert after.partitions >= before.partitions, f"{after} has lost a partition of {before}"
