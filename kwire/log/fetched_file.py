"""A segment's file as one fetch reads it: a worker reads the ranges for which the fetch would wait for the device."""

from __future__ import annotations

from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFile
from kwire.log.errors import NotCachedError
from kwire.log.header_walk import WALK_CHUNK_BYTES
from kwire.log.verify_budget import VerifyBudget


class FetchedFile:
    """File of one segment, read within the budget of one step of a fetch."""

    __slots__ = ("_budget", "_bytes_requested", "_cold", "_file", "_hot_from", "_is_first")

    def __init__(
        self,
        file: DiskFile,
        cold: ColdReads,
        budget: VerifyBudget,
        *,
        hot_from: int,
        bytes_requested: int,
        is_first: bool,
    ) -> None:
        """Create a view of the file; bytes from `hot_from` on are assumed to be in the page cache.

        `is_first` marks the first batch: it is read regardless of the bytes read before, so that each fetch makes
        progress.
        """
        self._file = file
        self._cold = cold
        self._budget = budget
        self._hot_from = hot_from
        self._bytes_requested = bytes_requested
        self._is_first = is_first

    def read(self, position: int, length: int) -> bytes:
        """Read headers. Raises NotCachedError if a worker must first read them and the records that follow."""
        if position < self._hot_from:
            self._require_cached(position, length, read_ahead=self._bytes_requested + WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def readable(self, position: int, length: int) -> int:
        """Return how many bytes of a range of records can be read together with the header that follows.

        Raises NotCachedError if none can be read.
        """
        if position >= self._hot_from:
            return length
        requested = min(length + WALK_CHUNK_BYTES, self._file.size - position)
        found = self._cold.readable(self._file, position, requested)
        if found >= requested:
            return length
        if found <= WALK_CHUNK_BYTES:
            self._request(position, requested, length_min=min(requested, 2 * WALK_CHUNK_BYTES))
        self._budget.is_short = True
        return found - WALK_CHUNK_BYTES

    def read_records(self, position: int, length: int) -> bytes:
        """Read records. Raises NotCachedError if a worker must first read more of the batch."""
        if position < self._hot_from:
            self._require_cached(position, length, read_ahead=WALK_CHUNK_BYTES)
        return self._cold.read(self._file, position, length)

    def _require_cached(self, position: int, length: int, *, read_ahead: int) -> None:
        length = min(length, self._file.size - position)
        if self._cold.readable(self._file, position, length) < length:
            self._request(position, min(length + read_ahead, self._file.size - position), length_min=length)

    def _request(self, position: int, length: int, *, length_min: int) -> None:
        """Request a read from a worker, if there is room for it. Raises NotCachedError."""
        if not self._cold.add(self._file, position, length, length_min=length_min, is_first=self._is_first):
            self._budget.is_short = True
        raise NotCachedError
