"""State of a log's idempotent and transactional producers.

For each producer id: its epoch, its last five batches (so that a retry gets its original offset), and the first offset
of its open transaction. The last stable offset and the aborted transactions derive from the transactions. Everything
derives from the batches in the log: check() validates a batch before it is stored, and update() adds it afterwards.
Recovery replays batches with update(), starting from the newest snapshot.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kwire.log.rejected_batches import RejectedBatches
from kwire.protocol.control_records import EndTransactionMarker
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from kwire.protocol.wrapping import SEQUENCE_MAX, next_sequence

logger = logging.getLogger(__name__)

BATCHES_KEPT: Final = 5
"""Batches kept per producer: max.in.flight.requests.per.connection of an idempotent producer."""

NO_TRANSACTION: Final = -1


class StoredBatch(NamedTuple):
    """Batch of a producer, one of its last five."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True, kw_only=True)
class ProducerEntry:
    """State of one producer id after its last batch or marker in the log."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_transaction_first_offset: int = NO_TRANSACTION
    batches: list[StoredBatch] = field(default_factory=list)
    """Oldest first; empty after a new epoch, or if there were only markers."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, header: BatchHeader) -> StoredBatch | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        first, last = header.base_sequence, next_sequence(header.base_sequence, header.last_offset_delta)
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None


class CompletedTransaction(NamedTuple):
    """Transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """First offset of the earliest transaction still open after this marker, else the offset after the marker.

    The transaction index stores it; replication does not count.
    """


class ProducerState:
    """Producers of one log."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        """Offset up to which the log's batches are included."""
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        """First offset of the open transaction by producer id, in the order of these offsets."""
        self._unreplicated: deque[tuple[int, int]] = deque()
        """(first offset, marker's offset) of ended transactions, in order of their markers.

        Their markers may be above the high watermark.
        """
        self._high_watermark = 0
        """High watermark of the last `update_high_watermark` call."""
        self.is_derived = True
        """True if the state covers the whole log; else it is being rebuilt, and no offset is stable."""
        self.rejected = RejectedBatches()
        """Rejected batches; they do not derive from the log, and are kept when the state is rebuilt."""

    def active(self) -> list[ProducerEntry]:
        """Return the producers that DescribeProducers reports."""
        return list(self.entries.values())

    def clear(self, end_offset: int) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def check(self, header: BatchHeader, *, from_client: bool) -> StoredBatch | None:
        """Validate a data batch on the leader; return the batch that it duplicates, or None. Raises KafkaError."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            # The producer's state was removed (retention, expiration): any sequence number is accepted.
            if header.producer_epoch < NO_PRODUCER_EPOCH:
                _check_epoch(ProducerEntry(producer_id=header.producer_id), header.producer_epoch)
            if from_client:
                self.rejected.check(header)
            return None
        if from_client and (duplicate := entry.find_duplicate(header)) is not None:
            return duplicate
        _check_epoch(entry, header.producer_epoch)
        if from_client:
            self.rejected.check(header)
            _check_sequence(entry, header)
        if entry.current_transaction_first_offset != NO_TRANSACTION and not header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"expected a transactional write from producer {header.producer_id}"
            )
        return None

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker, *, has_next_epoch: bool) -> None:
        """Validate an end-of-transaction marker on the leader. Raises KafkaError."""
        entry = self.entries.get(header.producer_id) or ProducerEntry(producer_id=header.producer_id)
        _check_epoch(entry, header.producer_epoch)
        is_open = entry.current_transaction_first_offset != NO_TRANSACTION
        if has_next_epoch and header.producer_epoch == entry.producer_epoch and is_open:
            # KIP-890: the coordinator increments the epoch before it ends a transaction. A marker with the epoch of the
            # open transaction is therefore a late retry for the previous one. If none is open, the marker is a retry
            # and is stored again.
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {header.producer_id} has epoch {header.producer_epoch}, which is not above "
                "the epoch of its open transaction",
            )
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {marker.coordinator_epoch} is older than {entry.coordinator_epoch}",
            )

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Reject an old epoch, before other checks of a batch. Raises KafkaError."""
        entry = self.entries.get(producer_id)
        if entry is not None:
            _check_epoch(entry, epoch)

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Add a data batch that was stored at base_offset."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(producer_id=header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches = []
        last_sequence = header.last_sequence
        last_offset = base_offset + header.last_offset_delta
        entry.batches.append(StoredBatch(last_sequence, last_offset, header.last_offset_delta, header.max_timestamp))
        if len(entry.batches) > BATCHES_KEPT:
            del entry.batches[0]
        entry.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_transaction_first_offset == NO_TRANSACTION:
            entry.current_transaction_first_offset = base_offset
            self._ongoing[header.producer_id] = base_offset

    def update_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """Add a stored marker; return the transaction that it ends, or None if none was open."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(producer_id=header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches = []
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        first_offset = entry.current_transaction_first_offset
        entry.current_transaction_first_offset = NO_TRANSACTION
        if first_offset == NO_TRANSACTION:
            return None
        del self._ongoing[header.producer_id]
        last_stable_offset = next(iter(self._ongoing.values()), offset + 1)
        self._unreplicated.append((first_offset, offset))
        return CompletedTransaction(header.producer_id, first_offset, offset, not marker.is_commit, last_stable_offset)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the lowest first offset of the transactions that are open or whose marker is not below high_watermark.

        None if there is none; 0 while the state is being rebuilt.
        """
        if not self.is_derived:
            return 0
        first = next(iter(self._ongoing.values()), None)
        for first_offset, marker_offset in self._unreplicated:
            if marker_offset >= high_watermark and (first is None or first_offset < first):
                first = first_offset
        return first

    def update_high_watermark(self, high_watermark: int) -> None:
        """Set the high watermark: transactions whose marker is below it no longer hold back the last stable offset."""
        self._high_watermark = high_watermark
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0][1] < high_watermark:
            unreplicated.popleft()

    def mark_derived(self) -> None:
        """Mark the state as complete after all batches of the log were added again."""
        self.is_derived = True
        self.update_high_watermark(self._high_watermark)

    def ongoing_transactions(self) -> dict[int, int]:
        """Return the first offset of each producer's open transaction, by producer id."""
        return dict(self._ongoing)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.producer_epoch == producer_epoch
            and entry.current_transaction_first_offset != NO_TRANSACTION
        )

    def has_batches(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if the last sequence number of an epoch is known."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.producer_epoch == producer_epoch and bool(entry.batches)

    def check_first_batch(self, header: BatchHeader) -> None:
        """Reject the first batch of a transaction if earlier batches of its epoch are missing (KIP-890)."""
        self.rejected.check(header)
        entry = self.entries.get(header.producer_id)
        if header.base_sequence != 0 and (entry is None or not entry.batches):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"unknown producer {header.producer_id} begins with sequence {header.base_sequence}",
            )

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that are inactive for expiration_ms and have no open transaction; return their number."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.current_transaction_first_offset == NO_TRANSACTION
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    def put_all(self, entries: Iterable[ProducerEntry]) -> None:
        """Add the entries of a snapshot to an empty state."""
        assert not self.entries
        self.entries = {entry.producer_id: entry for entry in entries if entry.producer_id != NO_PRODUCER_ID}
        open_ones = [
            (entry.current_transaction_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.current_transaction_first_offset != NO_TRANSACTION
        ]
        self._ongoing.update((producer_id, first_offset) for first_offset, producer_id in sorted(open_ones))


def _check_epoch(entry: ProducerEntry, epoch: int) -> None:
    if epoch < entry.producer_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {epoch} of producer {entry.producer_id} is smaller than the last seen epoch {entry.producer_epoch}",
        )


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch != entry.producer_epoch:
        if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence "
                f"{header.base_sequence}",
            )
        return
    last = entry.last_sequence
    in_order = header.base_sequence == last + 1 or (header.base_sequence == 0 and last == SEQUENCE_MAX)
    if not in_order:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}: sequence {header.base_sequence} after {last}",
        )
