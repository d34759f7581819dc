"""Records of a fetch that are not in the page cache: a worker reads them, then the fetch reads them again.

A stretch is asked about once: to ask has the system begin to read it. What the worker has read is read then even if the
system has dropped it again, so that each fetch makes progress.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.log.disk import DiskFile

HOT_BYTES: Final = 64 * 1024 * 1024
"""So much of what a process has appended last to a segment is taken to be in the page cache."""
COLD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes that a worker reads for one fetch at most; the next fetch gets the rest."""


class ColdStretch(NamedTuple):
    """Bytes of a file for which a read would wait."""

    file: DiskFile
    position: int
    length: int


class ColdReads:
    """The stretches of one fetch."""

    __slots__ = ("_noted", "_room", "_taken")

    def __init__(self) -> None:
        self._noted: dict[tuple[DiskFile, int], int] = {}
        """By file and position, the length."""
        self._room = COLD_BYTES_MAX
        self._taken: dict[tuple[DiskFile, int], int] = {}
        """Stretches that a worker has read."""

    def __bool__(self) -> bool:
        """Whether there is something for a worker."""
        return bool(self._noted)

    def readable(self, file: DiskFile, position: int, length: int) -> int:
        """How much of a stretch is to be read now; if nothing, it is noted as far as there is room."""
        key = file, position
        taken = self._taken.get(key)
        if taken is not None:
            return min(taken, length)
        if length <= 0 or key in self._noted:
            return 0
        if file.is_cached(position, length):
            return length
        if self._room > 0:
            self._noted[key] = min(length, self._room)
            self._room -= length
        return 0

    def has_noted(self, file: DiskFile, position: int) -> bool:
        """Whether a worker is to read a stretch, or its beginning."""
        return (file, position) in self._noted

    def take(self) -> list[ColdStretch]:
        """What a worker is to read; each stretch once."""
        taken = [ColdStretch(file, position, length) for (file, position), length in self._noted.items()]
        self._taken.update(self._noted)
        self._noted.clear()
        return taken
