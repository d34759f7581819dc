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
    """How often the file had been truncated or closed when the stretch was noted."""

    def bytes_from(self, position: int) -> int:
        """Return how many bytes of the stretch follow a position; 0 if the position is not in the stretch."""
        behind = self.position + self.length - position
        return behind if behind <= self.length else 0


class ColdReads:
    """Cold stretches of one fetch."""

    __slots__ = ("_cached", "_has_given_up", "_held", "_noted", "_room", "_taken", "when_released")

    def __init__(self) -> None:
        self._noted: dict[tuple[DiskFile, int], ColdStretch] = {}
        """Stretches to request from a worker, by file and position."""
        self._taken: dict[DiskFile, list[ColdStretch]] = {}
        """Stretches requested from a worker, by file."""
        self._held: dict[ColdStretch, bytes] = {}
        """Bytes that the worker has read, by stretch."""
        self._room = COLD_BYTES_MAX
        self._cached: tuple[DiskFile, int, int] | None = None
        """(file, start, end) of the last stretch found in the page cache; it contains the headers of a walk."""
        self._has_given_up = False
        self.when_released: Callable[[], None] | None = None
        """Callback for the release of the memory."""

    def __bool__(self) -> bool:
        """Return True if there are stretches for a worker to read."""
        return bool(self._noted)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """Return how many bytes of a stretch can be read without waiting for the device."""
        longest = max((each.bytes_from(position) for each in self._taken.get(file, ())), default=0)
        if longest >= length or self._is_cached(file, position, length):
            return length
        return longest

    def _is_cached(self, file: DiskFile, position: int, length: int) -> bool:
        end = position + length
        if (known := self._cached) is not None and known[0] is file and known[1] <= position and end <= known[2]:
            return True
        if (file, position) in self._noted or not file.is_cached(position, length):
            return False
        self._cached = file, position, end
        return True

    def note(self, file: DiskFile, position: int, length: int, *, least: int, is_due: bool) -> bool:
        """Note a stretch for a worker to read, limited to the room that is left, and return True if it was noted.

        If `is_due`, at least `least` bytes are noted, whatever room is left. False leaves the stretch to the next
        fetch.
        """
        key = file, position
        if key in self._noted and self._noted[key].length >= least:
            return True
        allowed = max(self._room, least) if is_due else self._room
        if allowed < least or self._has_given_up:
            return False
        stretch = ColdStretch(file, position, min(length, allowed), file.cuts)
        self._noted[key] = stretch
        self._room = max(0, self._room - stretch.length)
        return True

    def read(self, file: DiskFile, position: int, length: int) -> bytes:
        """Read from the file, or from the bytes that a worker has read."""
        for stretch in self._taken.get(file, ()):
            behind = stretch.bytes_from(position)
            if behind > 0 and (behind >= length or stretch.position + stretch.length == file.size):
                data = self._held.get(stretch)
                if data is not None and stretch.cuts == file.cuts:
                    start = position - stretch.position
                    return data[start : start + length]
        return file.read(position, length)

    def take(self) -> list[ColdStretch]:
        """Return the stretches that a worker must read; each stretch is returned once."""
        taken = list(self._noted.values())
        for stretch in taken:
            self._taken.setdefault(stretch.file, []).append(stretch)
        self._noted.clear()
        return taken

    def hold(self, stretches: Sequence[ColdStretch], read: Sequence[bytes]) -> None:
        """Store the bytes that a worker has read; `read` is shorter than `stretches` if it did not read all of them.

        The bytes are dropped if the fetch has given up or released its stretches meanwhile.
        """
        for stretch, data in zip(stretches, read, strict=False):
            if stretch in self._taken.get(stretch.file, ()):
                self._held[stretch] = data

    def give_up(self) -> None:
        """Stop waiting for the device: stretches that were not read by now count as missing."""
        self._has_given_up = True
        self._noted.clear()
        self._taken = {}
        for stretch in self._held:
            self._taken.setdefault(stretch.file, []).append(stretch)

    def release(self) -> None:
        """Release the memory after everything was read. A repeated read must request its stretches again."""
        self._noted.clear()
        self._taken.clear()
        self._held.clear()
        self._cached = None
        self._room = COLD_BYTES_MAX
        self._has_given_up = False
        if (callback := self.when_released) is not None:
            self.when_released = None
            callback()
