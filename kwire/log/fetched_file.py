"""A segment's file as one fetch reads it: where a read would wait for the device, a worker is asked instead."""

from __future__ import annotations

from kwire.log.disk import DiskFile
from kwire.log.errors import NotCachedError
from kwire.log.header_walk import WALK_CHUNK_BYTES
from kwire.log.verify_budget import VerifyBudget


class FetchedFile:
    """The file of one segment, read within the budget of one step of a fetch."""

    __slots__ = ("_ahead", "_budget", "_file", "_hot_from")

    def __init__(self, file: DiskFile, budget: VerifyBudget, hot_from: int, bytes_wanted: int) -> None:
        """From `hot_from` on, all is taken to be in the page cache."""
        self._file = file
        self._budget = budget
        self._hot_from = hot_from
        self._ahead = bytes_wanted + WALK_CHUNK_BYTES
        """Bytes to read together with a header: the records after it, and the headers where these end."""

    def expect_no_records(self) -> None:
        """From now on headers are read alone: the search is for an end, not for the first record."""
        self._ahead = 0

    def read(self, position: int, length: int) -> bytes:
        """Read headers; raises NotCachedError if a worker is to read them, and the records behind them."""
        if position < self._hot_from and not self._budget.readable(self._file, position, 1, ahead=length + self._ahead):
            raise NotCachedError
        return self._budget.read(self._file, position, length)

    def readable(self, position: int, length: int) -> int:
        """Return how much of a stretch of records can be read; raises NotCachedError if nothing can."""
        if position >= self._hot_from:
            return length
        found = self._budget.readable(self._file, position, length, ahead=WALK_CHUNK_BYTES)
        if not found:
            raise NotCachedError
        return found

    def read_records(self, position: int, length: int) -> bytes:
        """Read what is readable, and of a batch that is larger all of it."""
        return self._budget.read(self._file, position, length)
