"""The sparse indexes beside a segment: offset -> position, and timestamp -> offset.

    .index      int32 relative offset (last offset of a batch - base offset), int32 position of that batch
    .timeindex  int64 timestamp, int32 relative offset: no record up to that offset has a larger timestamp

Entries are kept in memory in machine order and written in Kafka's order when the segment is flushed or closed. An index
is derived data: load() refuses what cannot be right, and the owner rebuilds it from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from kwire.log.disk import Disk, DiskFile
from kwire.log.files import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12

_SWAP: Final = sys.byteorder == "little"


class CorruptIndexError(Exception):
    """An index file that does not belong to its segment or was not written to its end."""


class _IndexFile:
    """The file behind an index: entries that are not yet written, and how much of it is."""

    def __init__(self, disk: Disk, stem: str, kind: str) -> None:
        self._disk = disk
        self._stem = stem
        self.kind = kind
        """How the file's name ends; thousands of segments share it."""
        self._file: DiskFile | None = None
        self._was_cut = False
        self.pending = bytearray()

    @property
    def path(self) -> str:
        return self._stem + self.kind

    def read(self) -> bytes:
        file = self.file(create=False)
        return file.read(0, file.size) if file is not None else b""

    def file(self, *, create: bool) -> DiskFile | None:
        if self._file is None and (create or self._disk.exists(self.path)):
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def write(self) -> list[DiskFile]:
        """Append what is pending; the file exists from then on even if it is empty. Returns it if a sync is needed.

        An empty file is no more than its name, unless it was not empty before.
        """
        file = self._file or self.file(create=True)
        assert file is not None
        if self.pending:
            file.append(self.pending)
            self.pending = bytearray()
        return [file] if file.size > 0 or self._was_cut else []

    def truncate(self, size: int) -> None:
        """Keep the first size bytes of written and pending entries."""
        file = self.file(create=False)
        written = file.size if file is not None else 0
        del self.pending[max(0, size - written) :]
        if file is not None:
            self._was_cut = True
            if size < written:
                file.truncate(size)

    def remove(self) -> None:
        """Delete the file; what is pending makes it anew."""
        if self.file(create=False) is not None:
            self.close()
            self._disk.unlink(self.path)
            self._was_cut = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class OffsetIndex:
    """Where a segment's batches are, about every index.interval.bytes."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, *, load: bool, suffix: str = "") -> None:
        self.storage = _IndexFile(disk, stem, OFFSET_INDEX_SUFFIX + suffix)
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self._loaded = not load

    def __len__(self) -> int:
        return len(self._positions)

    def load(self, *, must_be_there: bool = False) -> None:
        """Read the entries if that was not done; raises CorruptIndexError.

        A flush and a clean stop leave a file, be it empty.
        """
        if self._loaded:
            return
        if must_be_there and self.storage.file(create=False) is None:
            raise CorruptIndexError(f"{self.storage.path} is not there")
        data = self.storage.read()
        if len(data) % OFFSET_ENTRY_BYTES:
            raise CorruptIndexError(f"{self.storage.path}: {len(data)} bytes are no whole entries")
        entries = array("i", data)
        if _SWAP:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        if not _increases(offsets) or not _increases(positions) or (offsets and (offsets[0] < 0 or positions[0] < 0)):
            raise CorruptIndexError(f"{self.storage.path}: entries do not increase")
        self._offsets, self._positions = offsets, positions
        self._loaded = True

    def unload(self) -> None:
        """Forget the entries; load() reads those that are in the file."""
        self._offsets, self._positions, self._loaded = array("i"), array("i"), False
        self.storage.pending = bytearray()

    def take_entries(self, other: OffsetIndex) -> None:
        """Take the entries of another index of the segment, of which none is written, in the place of these."""
        self.reset()
        self._offsets, self._positions = other._offsets, other._positions
        self.storage.pending = other.storage.pending

    def append(self, last_offset: int, position: int) -> None:
        relative = last_offset - self._base_offset
        if self._offsets and relative <= self._offsets[-1]:
            return
        self._offsets.append(relative)
        self._positions.append(position)
        self.storage.pending += relative.to_bytes(4, "big") + position.to_bytes(4, "big")

    def lookup(self, offset: int) -> int:
        """Position of a batch at or before the one that holds offset."""
        return self.lookup_entry(offset)[1]

    def lookup_entry(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of that batch; the segment's start if there is no entry."""
        found = bisect_right(self._offsets, offset - self._base_offset)
        return (self._base_offset + self._offsets[found - 1], self._positions[found - 1]) if found else (-1, 0)

    def lookup_position(self, position: int) -> int:
        """Position of the last indexed batch that starts at or before position."""
        found = bisect_right(self._positions, position)
        return self._positions[found - 1] if found else 0

    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry; the segment's start if there is none."""
        if not self._offsets:
            return self._base_offset, 0
        return self._base_offset + self._offsets[-1], self._positions[-1]

    def entries(self) -> list[tuple[int, int]]:
        return [(self._base_offset + offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)]

    def truncate_to_position(self, position: int) -> None:
        """Forget batches that start at or after position."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]
        self.storage.truncate(keep * OFFSET_ENTRY_BYTES)

    def reset(self) -> None:
        """Forget everything, for a rebuild."""
        self._offsets, self._positions, self._loaded = array("i"), array("i"), True
        self.storage.pending = bytearray()
        self.storage.truncate(0)


class TimeIndex:
    """The largest timestamp up to an offset, about every index.interval.bytes."""

    def __init__(self, disk: Disk, stem: str, base_offset: int, *, load: bool, suffix: str = "") -> None:
        self.storage = _IndexFile(disk, stem, TIME_INDEX_SUFFIX + suffix)
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")
        self._loaded = not load

    def __len__(self) -> int:
        return len(self._offsets)

    def load(self) -> None:
        """Read the entries if that was not done; raises CorruptIndexError."""
        if self._loaded:
            return
        data = self.storage.read()
        if len(data) % TIME_ENTRY_BYTES:
            raise CorruptIndexError(f"{self.storage.path}: {len(data)} bytes are no whole entries")
        words = array("I", data)
        if _SWAP:
            words.byteswap()
        try:
            timestamps = array("q", (high << 32 | low for high, low in zip(words[0::3], words[1::3], strict=True)))
        except OverflowError as error:
            raise CorruptIndexError(f"{self.storage.path}: a timestamp is negative") from error
        offsets = array("i", words[2::3].tobytes())
        if not _increases(timestamps) or not _increases(offsets) or (offsets and offsets[0] < 0):
            raise CorruptIndexError(f"{self.storage.path}: entries do not increase")
        self._timestamps, self._offsets = timestamps, offsets
        self._loaded = True

    def unload(self) -> None:
        """Forget the entries; load() reads those that are in the file."""
        self._timestamps, self._offsets, self._loaded = array("q"), array("i"), False
        self.storage.pending = bytearray()

    def take_entries(self, other: TimeIndex) -> None:
        """Take the entries of another index of the segment, of which none is written, in the place of these."""
        self.reset()
        self._timestamps, self._offsets = other._timestamps, other._offsets
        self.storage.pending = other.storage.pending

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless an earlier one says as much."""
        relative = offset - self._base_offset
        if timestamp < 0 or (self._timestamps and (timestamp <= self._timestamps[-1] or relative <= self._offsets[-1])):
            return
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        self.storage.pending += timestamp.to_bytes(8, "big") + relative.to_bytes(4, "big")

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first record whose timestamp is at least this one."""
        entry = self.lookup_entry(timestamp)
        return self._base_offset if entry is None else entry[1]

    def lookup_entry(self, timestamp: int) -> tuple[int, int] | None:
        """The last (timestamp, offset) before this timestamp."""
        found = bisect_left(self._timestamps, timestamp)
        return (self._timestamps[found - 1], self._base_offset + self._offsets[found - 1]) if found else None

    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        if not self._offsets:
            return -1, self._base_offset
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def entries(self) -> list[tuple[int, int]]:
        return [(at, self._base_offset + offset) for at, offset in zip(self._timestamps, self._offsets, strict=True)]

    def truncate_to_offset(self, offset: int) -> None:
        """Forget entries at or after offset."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]
        self.storage.truncate(keep * TIME_ENTRY_BYTES)

    def reset(self) -> None:
        """Forget everything, for a rebuild."""
        self._timestamps, self._offsets, self._loaded = array("q"), array("i"), True
        self.storage.pending = bytearray()
        self.storage.truncate(0)


def _increases(values: array[int]) -> bool:
    return all(map(int.__lt__, values, values[1:]))
