"""Sparse indexes of a segment, and other data derived from its batches in order.

A segment has one such object for its lifetime (it is a subclass). A rebuild uses a second one until it is complete.
"""

from __future__ import annotations

from typing import Final

from kwire.log.config import INDEX_INTERVAL_BYTES_MAX, LogConfig
from kwire.log.disk import Disk
from kwire.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from kwire.log.index_memory import IndexMemory
from kwire.log.positions import Positions
from kwire.protocol.records import BATCH_HEADER_BYTES

BATCHES_BETWEEN_ENTRIES_MAX: Final = INDEX_INTERVAL_BYTES_MAX // BATCH_HEADER_BYTES + 2
"""Most batches from the one of an index entry up to the one of the next entry, both included."""


class SegmentIndexes:
    """Offset index and time index of one segment, its timestamps, and the positions of its newest batches."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, *, load: bool, suffix: str = "") -> None:
        self.stem = stem
        self.suffix = suffix
        """Suffix of the file names while compaction has not renamed them to their final names."""
        self.base_offset = base_offset
        self.offset_index = OffsetIndex(disk, stem, base_offset, load=load, suffix=suffix)
        self.time_index = TimeIndex(disk, stem, base_offset, load=load, suffix=suffix)
        self.is_loaded = not load
        """True if the indexes, and the timestamps below, are in memory."""
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp: int | None = None
        """Max timestamp of the first batch, from which segment.ms is measured."""
        self.is_full = False
        """True if an index has no room left."""
        self.memory: IndexMemory | None = None
        """Memory limit for the indexes of closed segments; None for an active or a standalone segment."""
        self._bytes_since_index_entry = 0
        self._positions: Positions | None = None
        """Positions of recent batches, if this process has written to the segment."""

    def index_batch(
        self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int, config: LogConfig
    ) -> None:
        """Index a batch that was just written at `position`."""
        if self.memory is None:
            if self._positions is None:
                self._positions = Positions()
            self._positions.add(base_offset, position)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if self._bytes_since_index_entry > config.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
            self.is_full = self._is_full(config.segment_index_bytes)
        self._bytes_since_index_entry += size

    def _is_full(self, index_bytes: int) -> bool:
        """Return True if an index is full; the time index reserves room for the entry that finish() adds."""
        return (
            len(self.offset_index) >= index_bytes // OFFSET_ENTRY_BYTES
            or len(self.time_index) >= index_bytes // TIME_ENTRY_BYTES - 1
        )

    def finish(self) -> None:
        """Complete the time index when no more batches follow, as Kafka does on roll and close."""
        if self.is_loaded:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def reset_indexes(self) -> None:
        """Clear the indexes and the data derived with them."""
        self.offset_index.reset()
        self.time_index.reset()
        self.is_loaded = True
        self.max_timestamp, self.offset_of_max_timestamp = -1, self.base_offset
        self.first_timestamp = None
        self._bytes_since_index_entry = 0
        self._positions = None
        self.is_full = False

    def move_indexes_from(self, derived: SegmentIndexes) -> None:
        """Replace the indexes by rebuilt ones that cover all batches."""
        self.reset_indexes()
        self.offset_index.move_entries_from(derived.offset_index)
        self.time_index.move_entries_from(derived.time_index)
        self.max_timestamp = derived.max_timestamp
        self.offset_of_max_timestamp = derived.offset_of_max_timestamp
        self.first_timestamp = derived.first_timestamp
        self._bytes_since_index_entry = derived._bytes_since_index_entry
        self._positions = derived._positions if self.memory is None else None
        self.is_full = derived.is_full
