"""Cold reads: records of a fetch that are not in the page cache. A worker reads them for the fetch.

A worker reads each stretch at most once. If the read fails, the fetch reads the stretch itself and gets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kwire.log.disk import DiskFile

HOT_BYTES: Final = 1024 * 1024
"""Size of the most recently appended part of a segment, which is assumed to be in the page cache."""
COLD_BYTES_MAX = 4 * 1024 * 1024
"""Most bytes that a worker reads for one fetch, unless the first batch is larger; the next fetch continues."""


class ColdStretch(NamedTuple):
    """Range of a file that cannot be read without waiting for the device."""

    file: DiskFile
    position: int
    length: int
    cuts: int
    """How often the file had been truncated or closed when the stretch was added."""

    def bytes_from(self, position: int) -> int:
        """Return how many bytes of the stretch follow a position; 0 if the position is not in the stretch."""
        behind = self.position + self.length - position
        return behind if behind <= self.length else 0


class ColdReads:
    """Cold stretches of one fetch."""

    __slots__ = ("_added", "_bytes_left", "_cached", "_data", "_has_stopped", "_requested", "when_released")

    def __init__(self) -> None:
        self._added: dict[tuple[DiskFile, int], ColdStretch] = {}
        """Stretches to request from a worker, by file and position."""
        self._requested: dict[DiskFile, list[ColdStretch]] = {}
        """Stretches requested from a worker, by file."""
        self._data: dict[ColdStretch, bytes] = {}
        """Bytes that the worker has read, by stretch."""
        self._bytes_left = COLD_BYTES_MAX
        self._cached: tuple[DiskFile, int, int] | None = None
        """(file, start, end) of the last stretch found in the page cache; it contains the headers of a walk."""
        self._has_stopped = False
        self.when_released: Callable[[], None] | None = None
        """Callback for the release of the memory."""

    def __bool__(self) -> bool:
        """Return True if there are stretches for a worker to read."""
        return bool(self._added)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """Return how many bytes of a stretch can be read without waiting for the device."""
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
        """Add a stretch for a worker to read, limited to the bytes that are left; return True if it was added.

        If `is_first`, at least `length_min` bytes are added, however few are left. False leaves the stretch to the next
        fetch.
        """
        key = file, position
        if key in self._added and self._added[key].length >= length_min:
            return True
        allowed = max(self._bytes_left, length_min) if is_first else self._bytes_left
        if allowed < length_min or self._has_stopped:
            return False
        stretch = ColdStretch(file, position, min(length, allowed), file.cuts)
        self._added[key] = stretch
        self._bytes_left = max(0, self._bytes_left - stretch.length)
        return True

    def read(self, file: DiskFile, position: int, length: int) -> bytes:
        """Read from the file, or from the bytes that a worker has read."""
        for stretch in self._requested.get(file, ()):
            behind = stretch.bytes_from(position)
            if behind > 0 and (behind >= length or stretch.position + stretch.length == file.size):
                data = self._data.get(stretch)
                if data is not None and stretch.cuts == file.cuts:
                    start = position - stretch.position
                    return data[start : start + length]
        return file.read(position, length)

    def take_added(self) -> list[ColdStretch]:
        """Return the stretches that a worker must read; each stretch is returned once."""
        taken = list(self._added.values())
        for stretch in taken:
            self._requested.setdefault(stretch.file, []).append(stretch)
        self._added.clear()
        return taken

    def store(self, stretches: Sequence[ColdStretch], read: Sequence[bytes]) -> None:
        """Store the bytes that a worker has read; `read` is shorter than `stretches` if it did not read all of them.

        The bytes are dropped if the fetch has given up or released its stretches meanwhile.
        """
        for stretch, data in zip(stretches, read, strict=False):
            if stretch in self._requested.get(stretch.file, ()):
                self._data[stretch] = data

    def stop_waiting(self) -> None:
        """Stop waiting for the device: stretches that were not read by now count as missing."""
        self._has_stopped = True
        self._added.clear()
        self._requested = {}
        for stretch in self._data:
            self._requested.setdefault(stretch.file, []).append(stretch)

    def release(self) -> None:
        """Release the memory after everything was read. A repeated read must request its stretches again."""
        self._added.clear()
        self._requested.clear()
        self._data.clear()
        self._cached = None
        self._bytes_left = COLD_BYTES_MAX
        self._has_stopped = False
        if (callback := self.when_released) is not None:
            self.when_released = None
            callback()
