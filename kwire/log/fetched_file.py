"""A segment's file as one fetch reads it: a worker reads the ranges for which the fetch would wait for the device."""

from __future__ import annotations

from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFile
from kwire.log.errors import NotCachedError
from kwire.log.header_walk import WALK_CHUNK_BYTES
from kwire.log.verify_budget import VerifyBudget


class FetchedFile:
    """File of one segment, read within the budget of one step of a fetch."""

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
        """Create a view of the file; bytes from `hot_from` on are assumed to be in the page cache.

        `is_due` marks the first batch: it is read regardless of the bytes read before, so that each fetch makes
        progress.
        """
        self._file = file
        self._cold = cold
        self._budget = budget
        self._hot_from = hot_from
        self._bytes_wanted = bytes_wanted
        self._is_due = is_due

    def read(self, position: int, length: int) -> bytes:
        """Read headers. Raises NotCachedError if a worker must first read them and the records that follow."""
        if position < self._hot_from:
            self._need(position, length, ahead=self._bytes_wanted + WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def readable(self, position: int, length: int) -> int:
        """Return how many bytes of a range of records can be read together with the header that follows.

        Raises NotCachedError if none can be read.
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
        """Read records. Raises NotCachedError if a worker must first read more of the batch."""
        if position < self._hot_from:
            self._need(position, length, ahead=WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def _need(self, position: int, length: int, *, ahead: int) -> None:
        length = min(length, self._file.size - position)
        if self._cold.readable(self._file, position, length) < length:
            self._ask(position, min(length + ahead, self._file.size - position), least=length)

    def _ask(self, position: int, length: int, *, least: int) -> None:
        """Request a read from a worker, if there is room for it. Raises NotCachedError."""
        if not self._cold.note(self._file, position, length, least=least, is_due=self._is_due):
            self._budget.is_short = True
        raise NotCachedError
