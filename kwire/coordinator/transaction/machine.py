"""Transaction coordinator's state in one shard: transactional ids, rebuilt by replay."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers
from kwire.coordinator.transaction.config import TransactionConfig
from kwire.coordinator.transaction.ending import fenced, fencing_needs_producer_id
from kwire.coordinator.transaction.memory import TransactionMemory
from kwire.coordinator.transaction.records import (
    TransactionRecord,
    decode_transaction_record,
    encode_transaction_record,
)
from kwire.coordinator.transaction.states import NOT_OPEN, PREPARED, TransactionState
from kwire.coordinator.transaction.transaction import Transaction
from kwire.protocol.error_codes import KafkaError
from kwire.protocol.records import NO_PRODUCER_ID
from kwire.seams import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")

NO_ID_PAUSE_MS = 20
"""Pause before the next attempt to get a producer id that an abort needs."""
FLEXIBLE_SINCE = 1
"""Lowest transaction.version with which flexible values are written."""


class TransactionMachine:
    """Transactional ids that map to one partition of __transaction_state."""

    def __init__(
        self,
        timers: Timers[Step[TransactionRecord]],
        *,
        config: TransactionConfig,
        version: Callable[[], int],
        clock: Clock,
        memory: TransactionMemory,
        allocate_producer_id: Callable[[], int],
        send_markers: Callable[[Transaction], None],
    ) -> None:
        """Create an empty state.

        `version` returns the cluster's transaction.version; `send_markers` is called with transactions whose markers
        must be written.
        """
        self.transactions: dict[str, Transaction] = {}
        self.version = version
        self._timers = timers
        self._config = config
        self._clock = clock
        self._memory = memory
        self._allocate_producer_id = allocate_producer_id
        self._send_markers = send_markers
        self._began_ms: dict[str, float] = {}
        """Start of each open transaction, by the monotonic clock."""
        self._timed_out: deque[str] = deque()
        """Transactions that have timed out. One scan finds all of them; each timer step aborts one."""

    # --- interface for the runtime

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return encode_transaction_record(record, version=1 if self.version() >= FLEXIBLE_SINCE else 0)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord:
        return decode_transaction_record(key, value)

    def replay(self, record: TransactionRecord, offset: int, producer_id: int) -> None:
        transactional_id, transaction = record
        before = self.transactions.get(transactional_id)
        self._memory.count(before, transaction)
        self._update_start_time(transactional_id, before, transaction)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing, since this topic is never written in a transaction."""

    def loaded(self) -> Write[TransactionRecord, None] | None:
        """Start the timers; continue the decided transactions once their records are committed."""
        self._schedule_timeout_check()
        self._schedule_expiration()
        decided = [each for each in self.transactions.values() if each.state in PREPARED]
        if not decided:
            return None

        def outcome(error: KafkaError | None) -> None:
            for transaction in decided if error is None else ():
                self._send_markers(transaction)

        return Write(answer=None, outcome=outcome)

    def unloaded(self) -> None:
        """Clear the state. Markers in progress may still be written, but the closed shard stores no completion."""
        for transaction in self.transactions.values():
            self._memory.count(transaction, None)
        self.transactions.clear()
        self._began_ms.clear()
        self._timed_out.clear()

    # --- timeouts

    def _update_start_time(self, transactional_id: str, before: Transaction | None, after: Transaction | None) -> None:
        """Start the timeout of a transaction that is now open.

        The stored wall-clock time is used only for the time before the transaction was loaded. Afterwards the monotonic
        clock counts. If the wall clock is set back by hours, read_committed consumers must not wait that much longer.
        """
        if after is None or after.state is not TransactionState.ONGOING:
            self._began_ms.pop(transactional_id, None)
        elif before is None or before.state is not TransactionState.ONGOING or before.start_ms != after.start_ms:
            age_ms = max(self._clock.wall_ms() - after.start_ms, 0)
            self._began_ms[transactional_id] = self._clock.monotonic_ms() - age_ms

    def _has_timed_out(self, transaction: Transaction) -> bool:
        began_ms = self._began_ms.get(transaction.transactional_id)
        return began_ms is not None and began_ms + transaction.timeout_ms < self._clock.monotonic_ms()

    def _schedule_timeout_check(self) -> None:
        self._timers.schedule("transaction timeouts", self._config.abort_interval_ms, self._abort_timed_out)

    def _abort_timed_out(self) -> Write[TransactionRecord, None] | None:
        """Abort one transaction that has timed out, fence its producer, and schedule the next one.

        A transaction whose abort cannot be stored now is found again after the interval, and delays no other.
        """
        if not self._timed_out:
            self._timed_out += (each for each in self._began_ms if self._has_timed_out(self.transactions[each]))
        late = self.transactions.get(self._timed_out.popleft()) if self._timed_out else None
        if self._timed_out:
            self._timers.schedule("transaction timeouts", 0, self._abort_timed_out)
        else:
            self._schedule_timeout_check()
        if late is None or not self._has_timed_out(late):
            return None
        version, next_producer_id = self.version(), NO_PRODUCER_ID
        if fencing_needs_producer_id(late, version):
            next_producer_id = self._allocate_producer_id()
            if next_producer_id == NO_PRODUCER_ID:
                self._timed_out.append(late.transactional_id)
                self._timers.schedule("transaction timeouts", NO_ID_PAUSE_MS, self._abort_timed_out)
                return None
        decision = fenced(late, version=version, next_producer_id=next_producer_id, now_ms=self._clock.wall_ms())
        return self._timeout_abort_write(late, decision)

    def _timeout_abort_write(self, late: Transaction, decision: Transaction) -> Write[TransactionRecord, None]:
        def outcome(error: KafkaError | None) -> None:
            if error is None:
                logger.info("%s has timed out and is aborted", late)
                self._send_markers(decision)
            else:
                logger.debug("%s has timed out and cannot be aborted yet: %s", late, error)

        return Write(answer=None, records=[TransactionRecord(decision.transactional_id, decision)], outcome=outcome)

    def _schedule_expiration(self) -> None:
        self._timers.schedule("expiration", self._config.expiration_interval_ms, self._expire)

    def _expire(self) -> Write[TransactionRecord, None] | None:
        """Remove transactional ids that were not used for transactional.id.expiration.ms."""
        self._schedule_expiration()
        tombstones = [TransactionRecord(transactional_id, None) for transactional_id in self._expired()]
        return Write(answer=None, records=tombstones, atomic=False) if tombstones else None

    def _expired(self) -> Iterator[str]:
        due_ms = self._clock.wall_ms() - self._config.expiration_ms
        for transaction in self.transactions.values():
            if transaction.state in NOT_OPEN and transaction.last_update_ms <= due_ms:
                yield transaction.transactional_id

    # --- decisions

    def decision_write(self, decision: Transaction, answer: T) -> Write[TransactionRecord, T]:
        """Return the write that stores a decision; its outcome sends the markers, once it is committed."""

        def outcome(error: KafkaError | None) -> None:
            if error is None:
                self._send_markers(decision)

        record = TransactionRecord(decision.transactional_id, decision)
        return Write(answer=answer, records=[record], outcome=outcome)
