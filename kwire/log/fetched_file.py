"""A segment's file as one fetch reads it: where a read would wait for the device, a worker is asked instead."""

from __future__ import annotations

from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFile
from kwire.log.errors import NotCachedError
from kwire.log.header_walk import WALK_CHUNK_BYTES
from kwire.log.verify_budget import VerifyBudget


class FetchedFile:
    """The file of one segment, read within the budget of one step of a fetch."""

    __slots__ = ("_budget", "_bytes_wanted", "_cold", "_file", "_hot_from", "_is_due")

    def __init__(
        self,
        file: DiskFile,
        cold: ColdReads,
        budget: VerifyBudget,
        *,
        hot_from: int,
        bytes_wanted: int,
        is_due: bool,
    ) -> None:
        """From `hot_from` on, all is taken to be in the page cache.

        Due is a first batch: it is read however much was read before, so that each fetch gets on.
        """
        self._file = file
        self._cold = cold
        self._budget = budget
        self._hot_from = hot_from
        self._bytes_wanted = bytes_wanted
        self._is_due = is_due

    def read(self, position: int, length: int) -> bytes:
        """Read headers; raises NotCachedError if a worker is to read them, and the records behind them."""
        if position < self._hot_from:
            self._need(position, length, ahead=self._bytes_wanted + WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def readable(self, position: int, length: int) -> int:
        """Return how much of a stretch of records can be read, with a header behind it.

        Raises NotCachedError if nothing can.
        """
        if position >= self._hot_from:
            return length
        wanted = min(length + WALK_CHUNK_BYTES, self._file.size - position)
        found = self._cold.readable(self._file, position, wanted)
        if found >= wanted:
            return length
        if found <= WALK_CHUNK_BYTES:
            self._ask(position, wanted, least=min(wanted, 2 * WALK_CHUNK_BYTES))
        self._budget.is_short = True
        return found - WALK_CHUNK_BYTES

    def read_records(self, position: int, length: int) -> bytes:
        """Read records; raises NotCachedError for a batch of which a worker is to read more than it has."""
        if position < self._hot_from:
            self._need(position, length, ahead=WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def _need(self, position: int, length: int, *, ahead: int) -> None:
        length = min(length, self._file.size - position)
        if self._cold.readable(self._file, position, length) < length:
            self._ask(position, min(length + ahead, self._file.size - position), least=length)

    def _ask(self, position: int, length: int, *, least: int) -> None:
        """Have a worker read, if there is room for it. Raises NotCachedError."""
        if not self._cold.note(self._file, position, length, least=least, is_due=self._is_due):
            self._budget.is_short = True
        raise NotCachedError
