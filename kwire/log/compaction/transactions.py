"""State of transactions while compaction reads a log from its start.

Data of an aborted transaction are removed. A marker is kept if compaction met a batch of its transaction before it,
since a fetch in progress may still contain that batch. A marker without such a batch may be removed after
delete.retention.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.control_records import ControlRecordType, control_record_type
from kwire.protocol.records import BatchHeader, Record


class CleanedTransactions:
    """Transactions that are open at the current batch."""

    def __init__(
        self, aborted: Iterable[AbortedTransaction], aborted_kept: Callable[[AbortedTransaction], None] | None
    ) -> None:
        self._coming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_seen: set[int] = set()
        """Producer ids with an open aborted transaction of which a batch was met."""
        self._committed: set[int] = set()
        self._aborted_kept = aborted_kept

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return True if a data batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        if header.producer_id in self._aborted:
            self._aborted_seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_unneeded(self, header: BatchHeader, records: list[Record]) -> bool:
        """Return True if no batch is left of the transaction that a control batch ends."""
        self._begin_up_to(header.last_offset)
        if not records:
            return True
        kind = control_record_type(records[0].key)
        if kind == ControlRecordType.ABORT:
            return self._is_abort_unneeded(header.producer_id)
        if kind == ControlRecordType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        return False

    def _is_abort_unneeded(self, producer_id: int) -> bool:
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._aborted_seen:
            return True
        self._aborted_seen.discard(producer_id)
        if self._aborted_kept is not None:
            self._aborted_kept(transaction)
        return False

    def _begin_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0].first_offset <= offset:
            transaction = coming.popleft()
            self._aborted.setdefault(transaction.producer_id, transaction)
