"""Records of a fetch that are not in the page cache: a worker reads them, and the fetch takes what it has read.

A stretch is asked for once. If the worker could not read it, the fetch reads it itself, and finds out why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kwire.log.disk import DiskFile

HOT_BYTES: Final = 1024 * 1024
"""So much of what a process has appended last to a segment is taken to be in the page cache."""
COLD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that a worker reads for one fetch at most, but for a larger first batch; the next fetch gets the rest."""


class ColdStretch(NamedTuple):
    """Bytes of a file for which a read would wait."""

    file: DiskFile
    position: int
    length: int
    cuts: int
    """How often the file had been cut or closed when the worker was asked."""

    def bytes_from(self, position: int) -> int:
        """How many bytes of the stretch are behind a position; nothing if it is not in there."""
        behind = self.position + self.length - position
        return behind if behind <= self.length else 0


class ColdReads:
    """The stretches of one fetch."""

    __slots__ = ("_cached", "_has_given_up", "_held", "_noted", "_room", "_taken", "when_released")

    def __init__(self) -> None:
        self._noted: dict[tuple[DiskFile, int], ColdStretch] = {}
        """Stretches to ask a worker for, by file and position."""
        self._taken: dict[DiskFile, list[ColdStretch]] = {}
        """Stretches that a worker was asked for, by file."""
        self._held: dict[ColdStretch, bytes] = {}
        """Bytes that the worker has read, by stretch."""
        self._room = COLD_BYTES_MAX
        self._cached: tuple[DiskFile, int, int] | None = None
        """The last stretch that was found in the page cache, with its end: the headers of a walk are in it."""
        self._has_given_up = False
        self.when_released: Callable[[], None] | None = None
        """Called when the memory is given back."""

    def __bool__(self) -> bool:
        """Whether there is something for a worker."""
        return bool(self._noted)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """How much of a stretch can be read without waiting for the device."""
        longest = max((each.bytes_from(position) for each in self._taken.get(file, ())), default=0)
        if longest >= length or self._is_cached(file, position, length):
            return length
        return max(longest, 0)

    def _is_cached(self, file: DiskFile, position: int, length: int) -> bool:
        end = position + length
        if (known := self._cached) is not None and known[0] is file and known[1] <= position and end <= known[2]:
            return True
        if (file, position) in self._noted or not file.is_cached(position, length):
            return False
        self._cached = file, position, end
        return True

    def note(self, file: DiskFile, position: int, length: int, *, least: int, is_due: bool) -> bool:
        """Have a worker read a stretch, or as much of it as there is room for: `least` bytes of what is due.

        False if there is no room: it is left to the next fetch.
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
        """Read as the file does; what a worker has read is taken from there."""
        for stretch in self._taken.get(file, ()):
            behind = stretch.bytes_from(position)
            if behind > 0 and (behind >= length or stretch.position + stretch.length == file.size):
                data = self._held.get(stretch)
                if data is not None and stretch.cuts == file.cuts:
                    start = position - stretch.position
                    return data[start : start + length]
        return file.read(position, length)

    def take(self) -> list[ColdStretch]:
        """What a worker is to read; each stretch once."""
        taken = list(self._noted.values())
        for stretch in taken:
            self._taken.setdefault(stretch.file, []).append(stretch)
        self._noted.clear()
        return taken

    def hold(self, stretches: Sequence[ColdStretch], read: Sequence[bytes]) -> None:
        """Keep what a worker has read of these stretches: of the first ones, if it has not read all.

        It may come when nobody waits for it any more.
        """
        for stretch, data in zip(stretches, read, strict=False):
            if stretch in self._taken.get(stretch.file, ()):
                self._held[stretch] = data

    def give_up(self) -> None:
        """Wait for the device no longer: what has not been read by now counts as not there."""
        self._has_given_up = True
        self._noted.clear()
        self._taken = {}
        for stretch in self._held:
            self._taken.setdefault(stretch.file, []).append(stretch)

    def release(self) -> None:
        """Give the memory back: all was read. Who reads again asks again."""
        self._noted.clear()
        self._taken.clear()
        self._held.clear()
        self._cached = None
        self._room = COLD_BYTES_MAX
        self._has_given_up = False
        if (callback := self.when_released) is not None:
            self.when_released = None
            callback()
