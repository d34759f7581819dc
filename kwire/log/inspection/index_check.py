"""Check of a segment's indexes against its batches, which are read in order.

Only the first flaw of each index is reported, because a broker rebuilds the whole file. Entries are decoded when the
check reaches their batches.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from kwire.log.inspection.batches import RECORD_ERRORS, StoredBatch, records_of
from kwire.log.inspection.dumping import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY
from kwire.log.inspection.findings import Finding
from kwire.log.inspection.reading import InputFile, read_whole
from kwire.log.transaction_index import AbortedTransaction

# ruff: noqa: PTH110 paths are plain strings, as everywhere in kwire.log


class Entries:
    """Entries of an index file in order, one at a time."""

    def __init__(self, path: str, layout: struct.Struct, *, may_be_preallocated: bool) -> None:
        self.path = path
        self._layout = layout
        self._data = read_whole(path) if os.path.exists(path) else b""
        self.count = len(self._data) // layout.size
        if may_be_preallocated:
            # Kafka preallocates the newest segment's indexes at their largest size; a clean shutdown truncates them.
            used = -(-len(self._data.rstrip(b"\0")) // layout.size)
            self.count = used if self.count - used > 1 else self.count
        self.at = 0

    @property
    def current(self) -> tuple[int, ...] | None:
        if self.at >= self.count:
            return None
        return self._layout.unpack_from(self._data, self.at * self._layout.size)

    def start(self) -> Iterator[Finding]:
        rest = len(self._data) % self._layout.size
        if rest:
            what = f"{rest} bytes at its end are not a whole entry"
            yield Finding(path=self.path, what=what, position=len(self._data) - rest)

    def flaw(self, what: str, offset: int | None = None) -> Finding:
        """Return the finding that ends the check of this file."""
        position, self.at = self.at * self._layout.size, self.count
        return Finding(path=self.path, what=what, position=position, offset=offset)


class OffsetIndexCheck:
    """Check of a .index file: each entry has a batch's last offset, and the position of that or an earlier batch."""

    def __init__(self, path: str, base_offset: int, *, is_newest: bool) -> None:
        self._positions = Entries(path, OFFSET_ENTRY, may_be_preallocated=is_newest)
        self._offsets = Entries(path, OFFSET_ENTRY, may_be_preallocated=is_newest)
        self._base_offset = base_offset

    def start(self) -> Iterator[Finding]:
        yield from self._positions.start()

    def batch(self, batch: StoredBatch) -> Iterator[Finding]:
        header = batch.header
        while (entry := self._positions.current) is not None and entry[1] <= batch.position:
            offset = self._base_offset + entry[0]
            if entry[1] < batch.position:
                yield self._flaw(self._positions, f"an entry points to byte {entry[1]}, where no batch begins", offset)
            elif offset < header.base_offset:
                yield self._flaw(self._positions, f"an entry points beyond its offset, to byte {entry[1]}", offset)
            else:
                self._positions.at += 1
        while (entry := self._offsets.current) is not None and self._base_offset + entry[0] <= header.last_offset:
            if self._base_offset + entry[0] < header.last_offset:
                yield self._flaw(
                    self._offsets, "an entry has an offset at which no batch ends", self._base_offset + entry[0]
                )
            else:
                self._offsets.at += 1

    def finish(self) -> Iterator[Finding]:
        for entries in (self._positions, self._offsets):
            if (entry := entries.current) is not None:
                what = "an entry is out of order or beyond the segment's end"
                yield self._flaw(entries, what, self._base_offset + entry[0])
                return

    def _flaw(self, entries: Entries, what: str, offset: int) -> Finding:
        finding = entries.flaw(what, offset)
        self._positions.at = self._offsets.at = self._positions.count
        return finding


class TimeIndexCheck:
    """Check of a .timeindex file: each entry has the largest timestamp up to its offset, and that record's offset."""

    def __init__(self, path: str, base_offset: int, *, is_newest: bool) -> None:
        self._entries = Entries(path, TIME_ENTRY, may_be_preallocated=is_newest)
        self._base_offset = base_offset
        self._largest = -1
        self._previous = -1

    def start(self) -> Iterator[Finding]:
        yield from self._entries.start()

    def batch(self, file: InputFile, batch: StoredBatch) -> Iterator[Finding]:
        header = batch.header
        self._largest = max(self._largest, header.max_timestamp)
        while (entry := self._entries.current) is not None and self._base_offset + entry[1] <= header.last_offset:
            timestamp, offset = entry[0], self._base_offset + entry[1]
            if timestamp != self._largest or timestamp <= self._previous:
                yield self._entries.flaw(f"timestamp {timestamp} is not the largest up to its offset", offset)
            elif offset != header.last_offset and not _has_record(file, batch, offset, timestamp):
                yield self._entries.flaw(f"no record of timestamp {timestamp} is at this offset", offset)
            else:
                self._previous = timestamp
                self._entries.at += 1

    def finish(self) -> Iterator[Finding]:
        if (entry := self._entries.current) is not None:
            what = "an entry is out of order or beyond the segment's end"
            yield self._entries.flaw(what, self._base_offset + entry[1])


def _has_record(file: InputFile, batch: StoredBatch, offset: int, timestamp: int) -> bool:
    fixed = batch.header.is_log_append_time
    try:
        return any(
            record.offset == offset and (fixed or record.timestamp == timestamp) for record in records_of(file, batch)
        )
    except RECORD_ERRORS:
        return False


class Transactions:
    """Open transactions of a log, according to its batches: first offset by producer id."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.start_offset: int | None = None
        self.has_gaps = False

    def has_all_from(self, offset: int) -> bool:
        """Return True if all records that were ever written from this offset on have been read."""
        return not self.has_gaps and self.start_offset is not None and self.start_offset <= offset


class TransactionIndexCheck:
    """Check of a .txnindex file: one entry, in order, for each abort marker that ended a transaction."""

    def __init__(self, path: str, transactions: Transactions) -> None:
        self._entries = Entries(path, TRANSACTION_ENTRY, may_be_preallocated=False)
        self._transactions = transactions

    def start(self) -> Iterator[Finding]:
        yield from self._entries.start()

    def aborted(self, producer_id: int, marker_offset: int) -> Iterator[Finding]:
        """Check the entry of an abort marker, and remove its transaction from the open ones."""
        first = self._transactions.open.pop(producer_id, None)
        while (entry := self._entries.current) is not None and entry[3] < marker_offset:
            yield self._entries.flaw("an entry ends at an offset that has no abort marker", entry[3])
        if entry is None or entry[3] != marker_offset:
            if first is not None:
                what = f"no entry for the transaction of producer {producer_id} that was aborted"
                yield Finding(path=self._entries.path, what=what, offset=marker_offset)
            return
        flaw = self._entry_flaw(entry[0], AbortedTransaction(*entry[1:]), producer_id, first)
        if flaw is None:
            self._entries.at += 1
        else:
            yield self._entries.flaw(flaw, marker_offset)

    def _entry_flaw(self, version: int, entry: AbortedTransaction, producer_id: int, first: int | None) -> str | None:
        if version != 0:
            return f"an entry has version {version}"
        if entry.producer_id != producer_id:
            return f"an entry names producer {entry.producer_id}, the marker is of producer {producer_id}"
        known = self._transactions.has_all_from(entry.first_offset)
        if entry.first_offset > (entry.last_offset if first is None else first) or (
            known and entry.first_offset != first
        ):
            return f"an entry begins at offset {entry.first_offset}, the transaction does not"
        stable = min(self._transactions.open.values(), default=entry.last_offset + 1)
        if entry.last_stable_offset > stable or (
            self._transactions.has_all_from(0) and entry.last_stable_offset != stable
        ):
            return f"an entry has last stable offset {entry.last_stable_offset} in place of {stable}"
        return None

    def finish(self) -> Iterator[Finding]:
        if (entry := self._entries.current) is not None:
            yield self._entries.flaw("an entry ends at an offset that has no abort marker", entry[3])
