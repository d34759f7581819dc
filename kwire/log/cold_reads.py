"""Cold reads: records of a fetch that are not in the page cache. A worker reads them for the fetch.

A worker reads each range at most once. If the read fails, the fetch reads the range itself and gets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kwire.log.disk import DiskFile

HOT_BYTES: Final = 1024 * 1024
"""Size of the most recently appended part of a segment, which is assumed to be in the page cache."""
COLD_BYTES_MAX = 4 * 1024 * 1024
"""Most bytes that a worker reads for one fetch, unless the first batch is larger; the next fetch continues."""


class ColdRange(NamedTuple):
    """Range of a file that cannot be read without waiting for the device."""

    file: DiskFile
    position: int
    length: int
    cuts: int
    """How often the file had been truncated or closed when the range was added."""

    def bytes_from(self, position: int) -> int:
        """Return how many bytes of the range follow a position; 0 if the position is not in the range."""
        behind = self.position + self.length - position
        return behind if behind <= self.length else 0


class ColdReads:
    """Cold ranges of one fetch."""

    __slots__ = ("_added", "_bytes_left", "_cached", "_data", "_has_stopped", "_requested", "when_released")

    def __init__(self) -> None:
        self._added: dict[tuple[DiskFile, int], ColdRange] = {}
        """Ranges to request from a worker, by file and position."""
        self._requested: dict[DiskFile, list[ColdRange]] = {}
        """Ranges requested from a worker, by file."""
        self._data: dict[ColdRange, bytes] = {}
        """Bytes that the worker has read, by range."""
        self._bytes_left = COLD_BYTES_MAX
        self._cached: tuple[DiskFile, int, int] | None = None
        """(file, start, end) of the last range found in the page cache; it contains the headers of a walk."""
        self._has_stopped = False
        self.when_released: Callable[[], None] | None = None
        """Callback for the release of the memory."""

    def __bool__(self) -> bool:
        """Return True if there are ranges for a worker to read."""
        return bool(self._added)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """Return how many bytes of a range can be read without waiting for the device."""
        longest = max((each.bytes_from(position) for each in self._requested.get(file, ())), default=0)
        if longest >= length or self._is_cached(file, position, length):
            return length
        return longest

    def _is_cached(self, file: DiskFile, position: int, length: int) -> bool:
        end = position + length
        if (known := self._cached) is not None and known[0] is file and known[1] <= position and end <= known[2]:
            return True
        if (file, position) in self._added or not file.is_cached(position, length):
            return False
        self._cached = file, position, end
        return True

    def add(self, file: DiskFile, position: int, length: int, *, length_min: int, is_first: bool) -> bool:
        """Add a range for a worker to read, limited to the bytes that are left; return True if it was added.

        If `is_first`, at least `length_min` bytes are added, however few are left. False leaves the range to the next
        fetch.
        """
        key = file, position
        if key in self._added and self._added[key].length >= length_min:
            return True
        allowed = max(self._bytes_left, length_min) if is_first else self._bytes_left
        if allowed < length_min or self._has_stopped:
            return False
        cold_range = ColdRange(file, position, min(length, allowed), file.cuts)
        self._added[key] = cold_range
        self._bytes_left = max(0, self._bytes_left - cold_range.length)
        return True

    def read(self, file: DiskFile, position: int, length: int) -> bytes:
        """Read from the file, or from the bytes that a worker has read."""
        for cold_range in self._requested.get(file, ()):
            behind = cold_range.bytes_from(position)
            if behind > 0 and (behind >= length or cold_range.position + cold_range.length == file.size):
                data = self._data.get(cold_range)
                if data is not None and cold_range.cuts == file.cuts:
                    start = position - cold_range.position
                    return data[start : start + length]
        return file.read(position, length)

    def take_added(self) -> list[ColdRange]:
        """Return the ranges that a worker must read; each range is returned once."""
        taken = list(self._added.values())
        for cold_range in taken:
            self._requested.setdefault(cold_range.file, []).append(cold_range)
        self._added.clear()
        return taken

    def store(self, ranges: Sequence[ColdRange], read: Sequence[bytes]) -> None:
        """Store the bytes that a worker has read; `read` is shorter than `ranges` if it did not read all of them.

        The bytes are dropped if the fetch has given up or released its ranges meanwhile.
        """
        for cold_range, data in zip(ranges, read, strict=False):
            if cold_range in self._requested.get(cold_range.file, ()):
                self._data[cold_range] = data

    def stop_waiting(self) -> None:
        """Stop waiting for the device: ranges that were not read by now count as missing."""
        self._has_stopped = True
        self._added.clear()
        self._requested = {}
        for cold_range in self._data:
            self._requested.setdefault(cold_range.file, []).append(cold_range)

    def release(self) -> None:
        """Release the memory after everything was read. A repeated read must request its ranges again."""
        self._added.clear()
        self._requested.clear()
        self._data.clear()
        self._cached = None
        self._bytes_left = COLD_BYTES_MAX
        self._has_stopped = False
        if (callback := self.when_released) is not None:
            self.when_released = None
            callback()
