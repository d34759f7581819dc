"""Records of a fetch that are not in the page cache: a worker reads them, and the fetch takes what it has read.

A stretch is asked for once. If the worker could not read it, the fetch reads it itself, and finds out why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.log.disk import DiskFile

HOT_BYTES: Final = 1024 * 1024
"""So much of what a process has appended last to a segment is taken to be in the page cache."""
COLD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that a worker reads for one fetch at most; the next fetch gets the rest."""


class ColdStretch(NamedTuple):
    """Bytes of a file for which a read would wait."""

    file: DiskFile
    position: int
    length: int
    cuts: int
    """How often the file had been cut when the worker was asked."""


class ColdReads:
    """The stretches of one fetch."""

    __slots__ = ("_cached", "_held", "_noted", "_room", "_taken")

    def __init__(self) -> None:
        self._noted: dict[tuple[DiskFile, int], int] = {}
        """Lengths of the stretches to ask a worker for, by file and position."""
        self._taken: dict[DiskFile, list[ColdStretch]] = {}
        """Stretches that a worker was asked for, by file."""
        self._held: dict[ColdStretch, bytes] = {}
        """Bytes that the worker has read, by stretch."""
        self._room = COLD_BYTES_MAX
        self._cached: tuple[DiskFile, int, int] | None = None
        """The last stretch that was found in the page cache, with its end: the records behind a header are in it."""

    def __bool__(self) -> bool:
        """Whether there is something for a worker."""
        return bool(self._noted)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """How much of a stretch is to be read now; if nothing, it is noted as far as there is room."""
        stretch = self._stretch_with(file, position)
        if stretch is not None:
            return min(stretch.position + stretch.length - position, length)
        key = file, position
        if length <= 0 or key in self._noted:
            return 0
        end = position + length
        if (known := self._cached) is not None and known[0] is file and known[1] <= position and end <= known[2]:
            return length
        if file.is_cached(position, length):
            self._cached = file, position, end
            return length
        if self._room > 0:
            self._noted[key] = min(length, self._room)
            self._room -= length
        return 0

    def has_noted(self, file: DiskFile, position: int) -> bool:
        """Whether a worker is to read a stretch, or its beginning."""
        return (file, position) in self._noted

    def read(self, file: DiskFile, position: int, length: int) -> bytes:
        """Read as the file does; what a worker has read is taken from there."""
        stretch = self._stretch_with(file, position)
        data = None if stretch is None or stretch.cuts != file.cuts else self._held.get(stretch)
        if stretch is not None and data is not None:
            start = position - stretch.position
            if start + length <= len(data) or stretch.position + len(data) == file.size:
                return data[start : start + length]
        return file.read(position, length)

    def take(self) -> list[ColdStretch]:
        """What a worker is to read; each stretch once."""
        taken = [ColdStretch(file, position, length, file.cuts) for (file, position), length in self._noted.items()]
        for stretch in taken:
            self._taken.setdefault(stretch.file, []).append(stretch)
        self._noted.clear()
        return taken

    def hold(self, stretches: Sequence[ColdStretch], read: Sequence[bytes]) -> None:
        """Keep what a worker has read of these stretches: of the first ones, if it has not read all."""
        self._held.update(zip(stretches, read, strict=False))

    def release(self) -> None:
        """Give the memory back: all was read. Who reads again asks again."""
        self._taken.clear()
        self._held.clear()
        self._cached = None
        self._room = COLD_BYTES_MAX

    def _stretch_with(self, file: DiskFile, position: int) -> ColdStretch | None:
        if self._taken:
            for stretch in self._taken.get(file, ()):
                if 0 <= position - stretch.position < stretch.length:
                    return stretch
        return None
