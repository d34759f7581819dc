"""Segment: a .log file with its indexes.

Positions are bytes from the file's start. Data that this process appended or recovered are known to be valid. All other
data are checked (CRC and bounds) when they are first read, and the checked ranges are stored. A flipped bit on disk is
therefore never served, and valid data are checked only once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from kwire.log import index_sanity
from kwire.log.batch_order import check_order
from kwire.log.cold_reads import HOT_BYTES
from kwire.log.disk import Disk, DiskFile, DiskFullError
from kwire.log.errors import CorruptIndexError, CorruptLogError, NotReadyError
from kwire.log.fetched_file import FetchedFile
from kwire.log.files import OFFSET_INDEX_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX
from kwire.log.header_walk import NO_LIMIT, Readable, walk
from kwire.log.index_memory import IndexMemory
from kwire.log.index_rebuild import rebuild_in_steps
from kwire.log.not_ready import ready_at_once
from kwire.log.ranges import Ranges
from kwire.log.scanning import LENGTH_MIN
from kwire.log.segment_indexes import BATCHES_BETWEEN_ENTRIES_MAX, SegmentIndexes
from kwire.log.transaction_index import TransactionIndex
from kwire.log.verify_budget import VerifyBudget
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, crc_matches, parse_header

logger = logging.getLogger(__name__)

T = TypeVar("T")


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment(SegmentIndexes):
    """Segment of a log: batches from base_offset up to the next segment's."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, *, create: bool, created_ms: int, suffix: str = ""
    ) -> None:
        stem = f"{directory}/{segment_name(base_offset)}"
        self._disk = disk
        self.file: DiskFile = disk.open(f"{stem}.log{suffix}", create=create)
        super().__init__(disk, stem, base_offset, load=self.file.size > 0, suffix=suffix)
        self.transaction_index = TransactionIndex(disk, stem, suffix)
        self.created_ms = created_ms
        self.jitter_ms = 0
        self.has_timestamps = self.is_loaded
        """True if the first and the largest timestamp are in memory; they stay there when the indexes are unloaded."""
        self._rebuild: Iterator[None] | None = None
        """Remaining steps of a rebuild of the indexes; None if there is none."""
        self._is_rebuilt = False
        """True if the indexes were rebuilt in a closed segment: entries that are not written may then be dropped."""
        self._verified = Ranges()
        self._verified_from = self.file.size
        """Start of the data that this process wrote or scanned; earlier data are in _verified once they were read."""
        self.stored_end: int | None = None
        """Upper bound for the offsets of stored batches, if it is known from the next segment."""

    @property
    def size(self) -> int:
        return self.file.size

    # Writing

    @property
    def has_pending_entries(self) -> bool:
        """True if a flush must write index entries."""
        is_delayed = self.transaction_index.is_suspect
        return bool(self.time_index.storage.pending or (self.offset_index.storage.pending and not is_delayed))

    def write_indexes(self) -> list[DiskFile]:
        """Append pending index entries to their files; return the files that must be synced.

        Raises DiskFullError only for the aborted transactions: missing entries of sparse indexes only lengthen
        searches.
        """
        self.transaction_index.write()
        transactions = self.transaction_index.file()
        files = [] if transactions is None else [transactions]
        return files + self._write_sparse_indexes() if self.is_loaded else files

    def _write_sparse_indexes(self) -> list[DiskFile]:
        """Write the time index first: batches after the offset index's last entry are found by reading on."""
        try:
            files = self.time_index.storage.write()
            if not self.transaction_index.is_suspect:
                files += self.offset_index.storage.write()
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the indexes are written later", error)
            return []
        return files

    # Reading

    def load(self) -> None:
        """Make indexes and timestamps ready for use; rebuild them if the files are invalid.

        Large indexes of a closed segment stay in their files.

        Raises NotReadyError during a rebuild, like all functions that use the indexes; each call does one step.
        """
        if not self.is_loaded:
            self._load()
            self.has_timestamps = True
        if self.memory is not None:
            self.memory.use(self)

    def load_timestamps(self) -> None:
        """Load the first and the largest timestamp, which stay in memory when the indexes are unloaded."""
        if not self.has_timestamps:
            self.load()

    @property
    def index_bytes(self) -> int:
        """Memory of the indexes in bytes."""
        sparse = self.offset_index.memory_bytes + self.time_index.memory_bytes
        return sparse + self.transaction_index.memory_bytes

    def unload(self) -> bool:
        """Release the memory of the indexes; return False if a flush must first write a part of them."""
        if self.has_pending_entries and not self._is_rebuilt:
            return False
        self._unload_indexes()
        self.transaction_index.unload()
        return True

    def _unload_indexes(self) -> None:
        self.offset_index.unload()
        self.time_index.unload()
        self.is_loaded = False

    def bound_by(self, memory: IndexMemory | None) -> None:
        """Add the indexes to a memory limit, because another segment is now active and reads at the end are rare."""
        self.memory = memory
        self._positions = None
        if memory is not None and self.index_bytes:
            memory.use(self)

    def unbound(self) -> None:
        """Exempt the indexes from the memory limit, because the segment is active again or was removed."""
        if self.memory is not None:
            self.memory.remove(self)
            self.memory = None
        self._is_rebuilt = False
        if self.offset_index.is_in_file or self.time_index.is_in_file:
            self._unload_indexes()  # an active segment needs them in memory

    def _load(self) -> None:
        if self._rebuild is not None:
            self._derive_more(self._rebuild)
            return
        try:
            is_whole = self.memory is None
            self.offset_index.load(must_be_there=self.size > 0, is_whole=is_whole)
            self.time_index.load(is_whole=is_whole)
            index_sanity.check(self)
            header = self.header_at(0)
            self.first_timestamp = None if header is None else header.max_timestamp
            self._find_max_timestamp()
        except (CorruptIndexError, CorruptLogError) as error:  # the index may point to a wrong position
            self._derive_indexes(error)
            return
        self.is_loaded = True

    def _find_max_timestamp(self) -> None:
        """Find the largest timestamp, from the indexes and the batches after their last entry."""
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry()
        position = self._checked_position(self.offset_index.last_entry()[1])
        self._bytes_since_index_entry = self.size - position
        for _, header in self.walk(position, BATCHES_BETWEEN_ENTRIES_MAX):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset

    def _search(self, search: Callable[[], T]) -> T:
        """Run a search that uses the indexes; rebuild them if they are wrong or too sparse."""
        self.load()
        try:
            return search()
        except CorruptIndexError as error:
            self._derive_indexes(error)
        return search()

    def _derive_indexes(self, reason: Exception) -> None:
        steps = self._rebuild
        if steps is None:
            logger.warning("Rebuilding the indexes of %s.log: %s", self.stem, reason)
            steps = rebuild_in_steps(self, self._disk)
        self._derive_more(steps)

    def _derive_more(self, steps: Iterator[None]) -> None:
        self._rebuild = None  # if a step fails, there is nothing to continue
        for _ in steps:
            self._rebuild = steps
            raise NotReadyError

    def write_rebuilt(self) -> None:
        """Write rebuilt indexes, since no flush writes those of a closed segment; without space they are rebuilt later.

        The time index is durable before it gets its name: a file with only its first entries would look valid, and
        retention would miss the largest timestamp. A search detects an offset index that lacks entries.
        """
        if not self.is_loaded:
            return
        self._is_rebuilt = self.memory is not None
        try:
            self.time_index.storage.write_anew()
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the indexes are written later", error)
        else:
            self._write_sparse_indexes()

    def position_of(self, offset: int, source: Readable | None = None) -> int:
        """Return the position of the first batch whose last offset is at or above `offset`; the file's size if none is.

        Raises the errors of the source of headers, which is the file by default.
        """
        if (known := self.known_position(offset)) >= 0:
            return known
        return self._search(lambda: self._find(offset, source))

    def _find(self, offset: int, source: Readable | None = None) -> int:
        indexed, start = self.offset_index.lookup_entry(offset)
        start = self._checked_position(start, indexed, source)
        for position, header in self.walk(start, BATCHES_BETWEEN_ENTRIES_MAX, source):
            if header.last_offset >= offset:
                return position
        return self.size

    def known_position(self, offset: int) -> int:
        """Return the position of the batch with this base offset, -1 if it is unknown without reading."""
        return -1 if self._positions is None else self._positions.find(offset)

    def _checked_position(self, position: int, last_offset: int | None = None, source: Readable | None = None) -> int:
        """Return a position from the index. Raises CorruptIndexError if no batch, with this last offset, is there.

        Positions that this process wrote or scanned are not checked if the index is in memory, because its entries
        increase.
        """
        if position == 0 or (self._verified_from <= position < self.size and not self.offset_index.is_in_file):
            return position
        header = self.header_at(position, source)
        if (
            header is not None
            and header.magic == 2
            and header.length >= LENGTH_MIN
            and position + header.size_in_bytes <= self.size
            and self.base_offset <= header.base_offset <= header.last_offset
            and last_offset in (None, header.last_offset)
        ):
            return position
        raise CorruptIndexError(f"an entry points to position {position}, where no such batch begins")

    def walk_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) from a batch at or before `position` on, within the distance of an index entry."""
        return self.walk(self._search(lambda: self._checked_position(self.offset_index.lookup_position(position))))

    def end_below(self, offset: int) -> int:
        """Return the offset after the last batch that ends below `offset`; the base offset if there is none."""
        return self._search(lambda: self._end_below(offset))

    def _end_below(self, offset: int) -> int:
        found = self.base_offset
        indexed, start = self.offset_index.lookup_entry(offset - 1)
        start = self._checked_position(start, indexed)
        for _, header in self.walk(start, BATCHES_BETWEEN_ENTRIES_MAX):
            if header.last_offset >= offset:
                break
            found = header.next_offset
        return found

    def offset_before_timestamp(self, timestamp: int) -> int:
        """Return an offset at or before the first record whose timestamp is at least `timestamp`."""
        return self._search(lambda: self._offset_before_timestamp(timestamp))

    def _offset_before_timestamp(self, timestamp: int) -> int:
        entry = self.time_index.lookup_entry(timestamp)
        if entry is None:
            return self.base_offset
        indexed_timestamp, offset = entry
        header = self.header_at(self._find(offset))
        if header is None or header.max_timestamp != indexed_timestamp:
            raise CorruptIndexError(f"no timestamp {indexed_timestamp} at offset {offset}")
        return offset

    def read(
        self, offset: int, max_bytes: int, limit_offset: int | None, budget: VerifyBudget | None, *, min_one_batch: bool
    ) -> bytes | None:
        """Return whole batches within the budget, from the one that contains `offset` up to limit_offset.

        Without limit_offset there is no limit. None if all batches are below `offset`. Raises NotCachedError if they
        are not in the page cache and the budget does not allow waiting for the device.
        """
        if max_bytes <= 0 and not min_one_batch:
            return b""
        source = self._source(offset, max_bytes, budget, min_one_batch)
        start = self.position_of(offset, source)
        end = self.size
        if start >= end:
            return None
        if limit_offset is not None and (known := self.known_position(limit_offset)) >= 0:
            end, limit_offset = known, None
        if source is not None and start < end:
            max_bytes = source.readable(start, min(end - start, max_bytes))
        if limit_offset is not None or end - start > max_bytes:
            end_max = min(end, start + max_bytes)
            end = self._whole_batches_end(start, end_max, limit_offset, source, min_one_batch=min_one_batch)
        if end <= start:
            return b""
        if start < self._verified_from and not self._verified.contain(start, min(end, self._verified_from)):
            budget = VerifyBudget() if budget is None else budget
            return self._read_unverified(start, end, budget, source, min_one_batch=min_one_batch)
        return self._read_records(start, end, source)

    def _source(self, offset: int, max_bytes: int, budget: VerifyBudget | None, is_first: bool) -> FetchedFile | None:
        """Return the view through which a fetch reads; None if nothing is cold, or if waiting is allowed."""
        if budget is None or budget.cold is None:
            return None
        hot_from = max(self._verified_from, self.size - HOT_BYTES) if self.memory is None else self.size
        if self.known_position(offset) >= hot_from:
            return None
        return FetchedFile(
            self.file, budget.cold, budget, hot_from=hot_from, bytes_requested=max_bytes, is_first=is_first
        )

    def _read_records(self, start: int, end: int, source: FetchedFile | None) -> bytes:
        return self.file.read(start, end - start) if source is None else source.read_records(start, end - start)

    def _read_unverified(
        self, start: int, end: int, budget: VerifyBudget, source: FetchedFile | None, *, min_one_batch: bool
    ) -> bytes:
        """Read verified data from `start` on, and as many of the following batches as the budget allows."""
        first = self._verified.end_from(start)
        if end - first > budget.bytes_left:
            all_end, end_max = end, first + max(budget.bytes_left, 0)
            end = self._whole_batches_end(first, end_max, None, source, min_one_batch=min_one_batch and first == start)
            budget.is_short |= end < all_end
        data = self._read_records(start, end, source)
        if start + (taken := budget.spend(data, first - start)) > first:
            self._verify(data[first - start : taken], first, source)
        return data[:taken]

    def _whole_batches_end(
        self, start: int, end: int, limit_offset: int | None, source: Readable | None, *, min_one_batch: bool
    ) -> int:
        """Return the end of the last batch that ends at or before `end` and is below limit_offset.

        If there is none, return the end of the first batch if min_one_batch is set, else its start.
        """
        return self._search(lambda: self._find_end(start, end, limit_offset, source, min_one_batch))

    def _find_end(
        self, start: int, end: int, limit_offset: int | None, source: Readable | None, min_one_batch: bool
    ) -> int:
        first, indexed = self.offset_index.lookup_position(end), None
        if limit_offset is not None and (entry := self.offset_index.lookup_entry(limit_offset))[1] < first:
            indexed, first = entry
        first = self._checked_position(first, indexed, source) if first > start else start
        found = first
        for position, header in self.walk(first, BATCHES_BETWEEN_ENTRIES_MAX, source):
            if limit_offset is not None and header.last_offset >= limit_offset:
                return position
            found = position + header.size_in_bytes
            if found > end:
                return found if min_one_batch and position == start else position
            if found == end:
                break
        return found

    def _verify(self, data: bytes, start: int, source: Readable | None = None) -> None:
        position = 0
        previous: BatchHeader | None = None
        while position < len(data):
            header = self._checked_header(data, position, start)
            if not crc_matches(data, position, header):
                raise CorruptLogError(f"{self.stem}.log: the batch at position {start + position} fails its CRC")
            check_order(self.stem, self.base_offset, previous, header, start + position)
            position += header.size_in_bytes
            previous = header
        self._check_neighbours(previous, start + len(data), source)
        self._verified.add(start, start + len(data))

    def _check_neighbours(self, last: BatchHeader | None, position: int, source: Readable | None) -> None:
        """Check that base offset and leader epoch, which no CRC covers, match those of the neighbouring batches."""
        if last is None:
            return
        if position < self.size:
            header = self.header_at(position, source)
            if header is not None:
                check_order(self.stem, self.base_offset, last, header, position)
        if self.stored_end is not None and position <= self._verified_from and last.next_offset > self.stored_end:
            raise CorruptLogError(
                f"{self.stem}.log: a batch ends at offset {last.last_offset}, though all end before {self.stored_end}"
            )

    def _checked_header(self, data: bytes, position: int, start: int) -> BatchHeader:
        if position + BATCH_HEADER_BYTES <= len(data):
            header = parse_header(data, position)
            if header.magic == 2 and LENGTH_MIN <= header.length <= len(data) - position - LENGTH_OVERHEAD:
                return header
        raise CorruptLogError(f"{self.stem}.log: no batch at position {start + position}")

    def header_at(self, position: int, source: Readable | None = None) -> BatchHeader | None:
        """Return the header of the batch at a position, None at the end."""
        data = (self.file if source is None else source).read(position, BATCH_HEADER_BYTES)
        return parse_header(data) if len(data) == BATCH_HEADER_BYTES else None

    def walk(
        self, position: int, batches_max: int = NO_LIMIT, source: Readable | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) from a batch's position on (header_walk.py)."""
        read_from = self.file if source is None else source
        return walk(read_from, self.stem, self.base_offset, position, self.size, batches_max)

    # Truncating and removing

    def truncate(self, position: int) -> None:
        """Truncate the log at a batch's start, with the indexes."""
        ready_at_once(self.load)
        self._rebuild = None
        self.offset_index.truncate_to_position(position)
        self.file.truncate(position)
        if self._positions is not None:
            self._positions.cut(position)
        self._verified.cut(position)
        self._verified_from = min(self._verified_from, position)
        next_offset = ready_at_once(self.next_offset)
        self.time_index.truncate_to_offset(next_offset)
        self.transaction_index.truncate(next_offset)
        self._find_max_timestamp()
        if position == 0:
            self.first_timestamp = None

    def next_offset(self) -> int:
        """Return the offset after the last batch."""
        return self._search(self._find_next_offset)

    def _find_next_offset(self) -> int:
        found = self.base_offset
        start = self._checked_position(self.offset_index.last_entry()[1])
        for _, header in self.walk(start, BATCHES_BETWEEN_ENTRIES_MAX):
            found = header.next_offset
        return found

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """Return one whole batch, verified."""
        data = self.file.read(position, header.size_in_bytes)
        if position < self._verified_from and not self._verified.contain(position, position + len(data)):
            self._verify(data, position)
        return data

    def check_stored(self, position: int, max_bytes: int) -> int:
        """Verify at least one whole batch from `position` on; return their size in bytes, 0 at the end.

        Unlike the check of a read, this one verifies everything, also what was read or written before.
        """
        if position >= self.size:
            return 0
        end = self._whole_batches_end(position, min(position + max_bytes, self.size), None, None, min_one_batch=True)
        self._verify(self.file.read(position, end - position), position)
        return end - position

    def mark_verified(self) -> None:
        """Record that a scan has checked every batch."""
        self._verified_from = 0

    def paths(self) -> list[str]:
        """Return the paths of the segment's files, including those that do not exist."""
        return [self.stem + kind + self.suffix for kind in SEGMENT_SUFFIXES]

    def drop_suffix(self) -> None:
        """Rename the files of a compacted segment to their final names; the files that they replace are gone."""
        self.close()
        for path in self.paths():
            if self._disk.exists(path):
                self._disk.rename(path, path.removesuffix(self.suffix))
        self.suffix = ""
        self.offset_index.storage.kind = OFFSET_INDEX_SUFFIX
        self.time_index.storage.kind = TIME_INDEX_SUFFIX
        self.transaction_index = TransactionIndex(self._disk, self.stem)
        self.file = self._disk.open(f"{self.stem}.log")

    def close(self) -> None:
        """Close the file descriptors."""
        if self.memory is not None:
            self.memory.remove(self)
        self.file.close()
        self.offset_index.storage.close()
        self.time_index.storage.close()
        self.transaction_index.close()
