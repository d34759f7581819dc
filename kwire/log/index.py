"""Sparse indexes of a segment: offset -> position, and timestamp -> offset.

    .index      int32 relative offset (last offset of a batch - base offset), int32 position of that batch
    .timeindex  int64 timestamp, int32 relative offset: no record up to that offset has a larger timestamp

Entries are kept in memory in machine byte order. They are written in Kafka's byte order when the segment is flushed or
closed. An index is derived data: load() rejects invalid content, and the owner rebuilds it from the log.

A full segment has 262,000 entries by default. Its indexes are in memory while it is appended to. Those of a closed
segment are searched in their files (index_pages.py) unless they are small.
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from kwire.log.disk import Disk, DiskFile
from kwire.log.errors import CorruptIndexError
from kwire.log.files import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kwire.log.index_pages import IndexPages

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
TIMESTAMP_BYTES: Final = 8
LOADED_BYTES_MAX = 16 * 1024
"""Largest index file of a closed segment that is loaded into memory, which takes some hundred microseconds."""

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_SWAP: Final = int(sys.byteorder == "little")


class _IndexFile:
    """File of an index, and the entries that are not written to it yet."""

    def __init__(self, disk: Disk, stem: str, kind: str) -> None:
        self._disk = disk
        self._stem = stem
        self.kind = kind
        """Suffix of the file's name; one object is shared by thousands of segments."""
        self._file: DiskFile | None = None
        self._was_cut = False
        self.pending = bytearray()

    @property
    def path(self) -> str:
        return self._stem + self.kind

    def read(self) -> bytes:
        file = self.file(create=False)
        return file.read(0, file.size) if file is not None else b""

    def pages(self, layout: Struct) -> IndexPages | None:
        """Return a search of the file's entries, or None if the file is small enough to be loaded.

        Raises CorruptIndexError.
        """
        file = self.file(create=False)
        if file is None or file.size <= LOADED_BYTES_MAX:
            return None
        self.check_size(file.size, layout)
        return IndexPages(self._read_some, file.size, layout)

    def _read_some(self, position: int, length: int) -> bytes:
        file = self.file(create=False)
        data = b"" if file is None else file.read(position, length)
        if len(data) < length and (file is None or position + length <= file.size):
            raise CorruptIndexError(f"{self.path} does not exist any more")
        return data

    def check_size(self, size: int, layout: Struct) -> None:
        """Raise CorruptIndexError unless `size` is a multiple of the entry size."""
        if size % layout.size:
            raise CorruptIndexError(f"{self.path}: {size} bytes are not a multiple of the entry size")

    @property
    def size(self) -> int:
        """Bytes that are written to the file."""
        file = self.file(create=False)
        return 0 if file is None else file.size

    def file(self, *, create: bool) -> DiskFile | None:
        if self._file is None and (create or self._disk.exists(self.path)):
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def write(self) -> list[DiskFile]:
        """Append pending entries and create the file if needed; return the file if it must be synced.

        An empty file has no content to sync, unless it was truncated.
        """
        file = self._file or self.file(create=True)
        assert file is not None
        if self.pending:
            file.append(self.pending)
            self.pending = bytearray()
        return [file] if file.size > 0 or self._was_cut else []

    def write_anew(self) -> None:
        """Write a file whose entries are all pending; a power failure leaves the old file or the whole new one.

        Raises DiskFullError.
        """
        if self.pending and self.size == 0:
            self.close()
            self._disk.replace(self.path, self.pending, sync=True)
            self.pending = bytearray()

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes of written and pending entries."""
        file = self.file(create=False)
        written = file.size if file is not None else 0
        del self.pending[max(0, size - written) :]
        if file is not None:
            self._was_cut = True
            if size < written:
                file.truncate(size)

    def remove(self) -> None:
        """Delete the file; pending entries create it again."""
        if self.file(create=False) is not None:
            self.close()
            self._disk.unlink(self.path)
            self._was_cut = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class OffsetIndex:
    """Offset index of a segment: positions of batches, about one per index.interval.bytes."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, *, load: bool, suffix: str = "") -> None:
        self.storage = _IndexFile(disk, stem, OFFSET_INDEX_SUFFIX + suffix)
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self._pages: IndexPages | None = None
        """Search of the file; None while the entries are in memory."""
        self._loaded = not load

    def __len__(self) -> int:
        return len(self._positions) if self._pages is None else len(self._pages)

    @property
    def is_in_file(self) -> bool:
        """True if lookups search the file; then the entries must be loaded before entries are added or removed."""
        return self._pages is not None

    @property
    def memory_bytes(self) -> int:
        return OFFSET_ENTRY_BYTES * len(self._positions) if self._pages is None else self._pages.memory_bytes

    @property
    def file_bytes(self) -> int:
        """Size of the file after all entries are written."""
        return OFFSET_ENTRY_BYTES * len(self) if self._loaded else self.storage.size

    def load(self, *, must_be_there: bool = False, is_whole: bool = True) -> None:
        """Read the entries unless they are loaded. Raises CorruptIndexError.

        A flush and a clean shutdown always leave a file, possibly empty. A large file is only read if `is_whole`.
        """
        if self._loaded:
            return
        if must_be_there and self.storage.file(create=False) is None:
            raise CorruptIndexError(f"{self.storage.path} is not there")
        if not is_whole and (pages := self.storage.pages(_OFFSET_ENTRY)) is not None:
            self._pages, self._loaded = pages, True
            return
        data = self.storage.read()
        self.storage.check_size(len(data), _OFFSET_ENTRY)
        entries = array("i", data)
        if _SWAP:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        if not _increases(offsets) or not _increases(positions) or (offsets and (offsets[0] < 0 or positions[0] < 0)):
            raise CorruptIndexError(f"{self.storage.path}: entries do not increase")
        self._offsets, self._positions = offsets, positions
        self._loaded = True

    def unload(self) -> None:
        """Drop the entries from memory; load() reads those in the file again."""
        self._offsets, self._positions, self._pages, self._loaded = array("i"), array("i"), None, False
        self.storage.pending = bytearray()

    def move_entries_from(self, other: OffsetIndex) -> None:
        """Replace the entries by those of another index of the segment, none of which is written."""
        self.reset()
        self._offsets, self._positions = other._offsets, other._positions
        self.storage.pending = other.storage.pending

    def append(self, last_offset: int, position: int) -> None:
        assert self._pages is None, "the entries are not in memory"
        relative = last_offset - self._base_offset
        if self._offsets and relative <= self._offsets[-1]:
            return
        self._offsets.append(relative)
        self._positions.append(position)
        self.storage.pending += relative.to_bytes(4, "big") + position.to_bytes(4, "big")

    def lookup(self, offset: int) -> int:
        """Return the position of a batch at or before the one that contains `offset`."""
        return self.lookup_entry(offset)[1]

    def lookup_entry(self, offset: int) -> tuple[int, int]:
        """Return the (last offset, position) of that batch; (-1, 0) if there is no entry."""
        if self._pages is not None:
            entry = self._pages.last_up_to(0, offset - self._base_offset)
            return (-1, 0) if entry is None else (self._base_offset + entry[0], entry[1])
        found = bisect_right(self._offsets, offset - self._base_offset)
        return (self._base_offset + self._offsets[found - 1], self._positions[found - 1]) if found else (-1, 0)

    def lookup_position(self, position: int) -> int:
        """Return the position of the last indexed batch that starts at or before `position`."""
        if self._pages is not None:
            entry = self._pages.last_up_to(1, position)
            return 0 if entry is None else entry[1]
        found = bisect_right(self._positions, position)
        return self._positions[found - 1] if found else 0

    def last_entry(self) -> tuple[int, int]:
        """Return the (offset, position) of the last entry; the segment's start if there is none."""
        if self._pages is not None:
            offset, position = self._pages.entry(len(self) - 1)
            return self._base_offset + offset, position
        if not self._offsets:
            return self._base_offset, 0
        return self._base_offset + self._offsets[-1], self._positions[-1]

    def entries(self) -> list[tuple[int, int]]:
        if self._pages is not None:
            return [(self._base_offset + offset, at) for offset, at in self._pages.entries()]
        return [(self._base_offset + offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)]

    def truncate_to_position(self, position: int) -> None:
        """Remove entries of batches that start at or after `position`."""
        assert self._pages is None, "the entries are not in memory"
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]
        self.storage.truncate(keep * OFFSET_ENTRY_BYTES)

    def reset(self) -> None:
        """Remove all entries, for a rebuild."""
        self._offsets, self._positions, self._pages, self._loaded = array("i"), array("i"), None, True
        self.storage.pending = bytearray()
        self.storage.truncate(0)


class TimeIndex:
    """Time index of a segment: the largest timestamp up to an offset, about one entry per index.interval.bytes."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, *, load: bool, suffix: str = "") -> None:
        self.storage = _IndexFile(disk, stem, TIME_INDEX_SUFFIX + suffix)
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")
        self._pages: IndexPages | None = None
        """Search of the file; None while the entries are in memory."""
        self._loaded = not load

    def __len__(self) -> int:
        return len(self._offsets) if self._pages is None else len(self._pages)

    @property
    def is_in_file(self) -> bool:
        """True if lookups search the file; then the entries must be loaded before entries are added or removed."""
        return self._pages is not None

    @property
    def memory_bytes(self) -> int:
        return TIME_ENTRY_BYTES * len(self._offsets) if self._pages is None else self._pages.memory_bytes

    @property
    def file_bytes(self) -> int:
        """Size of the file after all entries are written."""
        return TIME_ENTRY_BYTES * len(self) if self._loaded else self.storage.size

    def load(self, *, is_whole: bool = True) -> None:
        """Read the entries unless they are loaded. Raises CorruptIndexError.

        A large file is only read if `is_whole`.
        """
        if self._loaded:
            return
        if not is_whole and (pages := self.storage.pages(_TIME_ENTRY)) is not None:
            self._pages, self._loaded = pages, True
            return
        data = self.storage.read()
        self.storage.check_size(len(data), _TIME_ENTRY)
        words = array("I", data)
        if _SWAP:
            words.byteswap()
        halves = array("I", bytes(TIMESTAMP_BYTES * (len(words) // 3)))
        halves[_SWAP::2], halves[1 - _SWAP :: 2] = words[0::3], words[1::3]
        timestamps = array("q", halves.tobytes())
        offsets = array("i", words[2::3].tobytes())
        if not _increases(timestamps) or not _increases(offsets) or (offsets and (timestamps[0] < 0 or offsets[0] < 0)):
            raise CorruptIndexError(f"{self.storage.path}: entries do not increase")
        self._timestamps, self._offsets = timestamps, offsets
        self._loaded = True

    def unload(self) -> None:
        """Drop the entries from memory; load() reads those in the file again."""
        self._timestamps, self._offsets, self._pages, self._loaded = array("q"), array("i"), None, False
        self.storage.pending = bytearray()

    def move_entries_from(self, other: TimeIndex) -> None:
        """Replace the entries by those of another index of the segment, none of which is written."""
        self.reset()
        self._timestamps, self._offsets = other._timestamps, other._offsets
        self.storage.pending = other.storage.pending

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one has the same or a larger timestamp or offset."""
        assert self._pages is None, "the entries are not in memory"
        relative = offset - self._base_offset
        if timestamp < 0 or (self._timestamps and (timestamp <= self._timestamps[-1] or relative <= self._offsets[-1])):
            return
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        self.storage.pending += timestamp.to_bytes(8, "big") + relative.to_bytes(4, "big")

    def lookup(self, timestamp: int) -> int:
        """Return an offset at or before the first record whose timestamp is at least `timestamp`."""
        entry = self.lookup_entry(timestamp)
        return self._base_offset if entry is None else entry[1]

    def lookup_entry(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last (timestamp, offset) entry before `timestamp`, or None."""
        if self._pages is not None:
            entry = self._pages.last_up_to(0, timestamp - 1)
            return None if entry is None else (entry[0], self._base_offset + entry[1])
        found = bisect_left(self._timestamps, timestamp)
        return (self._timestamps[found - 1], self._base_offset + self._offsets[found - 1]) if found else None

    def last_entry(self) -> tuple[int, int]:
        """Return the (timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        if self._pages is not None:
            timestamp, offset = self._pages.entry(len(self) - 1)
            return timestamp, self._base_offset + offset
        if not self._offsets:
            return -1, self._base_offset
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def entries(self) -> list[tuple[int, int]]:
        if self._pages is not None:
            return [(at, self._base_offset + offset) for at, offset in self._pages.entries()]
        return [(at, self._base_offset + offset) for at, offset in zip(self._timestamps, self._offsets, strict=True)]

    def truncate_to_offset(self, offset: int) -> None:
        """Remove entries at or after `offset`."""
        assert self._pages is None, "the entries are not in memory"
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]
        self.storage.truncate(keep * TIME_ENTRY_BYTES)

    def reset(self) -> None:
        """Remove all entries, for a rebuild."""
        self._timestamps, self._offsets, self._pages, self._loaded = array("q"), array("i"), None, True
        self.storage.pending = bytearray()
        self.storage.truncate(0)


def _increases(values: array[int]) -> bool:
    return all(map(operator.lt, values, values[1:]))
