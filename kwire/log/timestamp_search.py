"""Search for the first record with a timestamp, in steps, because a batch of a few KB may contain millions of records.

A batch is copied out of the log, and the records of the copy are read a few at a time. A batch of more than 256 KiB
uncompressed is decompressed by a worker, one batch at a time for all searches, which bounds their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Final, NamedTuple

from kwire.chunks import Steps
from kwire.log.batch_opening import OPENED_AT_ONCE_BYTES_MAX
from kwire.log.config import INT64_MAX
from kwire.log.large_batches import LargeBatches
from kwire.log.lookup import Candidate
from kwire.log.not_ready import ready_in_steps
from kwire.log.partition_log import PartitionLog
from kwire.protocol.compression import DecompressedTooLargeError
from kwire.protocol.records import BatchHeader, InvalidRecordsError, batch_body, read_varint
from kwire.protocol.wrapping import as_int64

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
RECORDS_AT_ONCE: Final = 512
"""Records that are read in one step, in less than a millisecond."""


class TimestampOffset(NamedTuple):
    """Record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


_Searched = tuple[BatchHeader, "tuple[int, int] | None"]
"""(header of a batch that was searched, (offset, timestamp) that was found in it or None)."""


class TimestampSearch:
    """Search in one log; `current_log` returns the current log after each step, or raises the error for the request."""

    def __init__(self, current_log: Callable[[], PartitionLog], large_batches: LargeBatches) -> None:
        self._current_log = current_log
        self._large_batches = large_batches

    def first(self, timestamp: int) -> Steps[TimestampOffset | None]:
        """Return the first record of the log with this timestamp or a later one, or None."""
        return self._search(timestamp, INT64_MAX, self._current_log().log_start_offset, is_exact=True)

    def largest(self) -> Steps[TimestampOffset | None]:
        """Return the first record with the largest timestamp (-1 if none has one), or None for an empty log.

        As in Kafka, the record may be below the log start.
        """
        found = yield from ready_in_steps(lambda: self._current_log().max_timestamp())
        if found is None:
            return None
        timestamp, last_offset = found
        return (yield from self._search(timestamp, timestamp, last_offset, is_exact=False))

    def _search(self, low: int, high: int, start_offset: int, *, is_exact: bool) -> Steps[TimestampOffset | None]:
        """Search the batches from the one with start_offset on; its earlier records count unless `is_exact`."""
        while True:
            searched = yield from self._search_next(low, high, start_offset, is_exact)
            if searched is None:
                return None
            header, found = searched
            if found is not None:
                offset, timestamp = found
                return TimestampOffset(offset, timestamp, header.partition_leader_epoch)
            start_offset = header.next_offset
            yield None

    def _search_next(self, low: int, high: int, start_offset: int, is_exact: bool) -> Steps[_Searched | None]:
        """Search the next batch; None if there is none. While a search waits for a large batch, it holds no data."""
        try:
            return (yield from self._search_batch(low, high, start_offset, is_exact, is_large=False))
        except DecompressedTooLargeError:
            pass
        yield self._large_batches.acquire()
        try:
            return (yield from self._search_batch(low, high, start_offset, is_exact, is_large=True))
        finally:
            self._large_batches.release()

    def _search_batch(
        self, low: int, high: int, start_offset: int, is_exact: bool, *, is_large: bool
    ) -> Steps[_Searched | None]:
        candidate = yield from self._next_batch(low, start_offset)
        while isinstance(candidate, int):
            yield None
            candidate = yield from self._next_batch(low, candidate)
        if candidate is None:
            return None
        batch, header = candidate
        if is_large:
            body = yield self._large_batches.run(partial(batch_body, batch, 0, header))
        else:
            body = batch_body(batch, 0, header, OPENED_AT_ONCE_BYTES_MAX)
        times = RecordTimes(header, low, high, start_offset if is_exact else header.base_offset)
        found = yield from times.search(body)
        return header, found

    def _next_batch(self, low: int, start_offset: int) -> Steps[Candidate | int | None]:
        return ready_in_steps(lambda: self._current_log().batch_for_timestamp(low, start_offset))


class RecordTimes:
    """Search over the offsets and timestamps of a batch's records, which skips their other fields."""

    def __init__(self, header: BatchHeader, low: int, high: int, start_offset: int) -> None:
        """Search for a timestamp of low..high, both included, at or after start_offset."""
        self._header = header
        self._low = low
        self._high = high
        self._start_offset = start_offset
        self._fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
        self._position = 0
        self._count = 0

    def search(self, body: bytes) -> Generator[None, None, tuple[int, int] | None]:
        """Return the (offset, timestamp) of the first matching record, or None. Raises InvalidRecordsError."""
        while self._position < len(body):
            found = self._search_records(body)
            if found is not None:
                return found
            yield None
        if self._count != self._header.record_count:
            raise InvalidRecordsError(f"the batch declares {self._header.record_count} records and holds {self._count}")
        return None

    def _search_records(self, body: bytes) -> tuple[int, int] | None:
        header, position, size = self._header, self._position, len(body)
        try:
            for _ in range(RECORDS_AT_ONCE):
                if position >= size:
                    break
                length, position = read_varint(body, position)
                end = position + length
                if length < 0 or end > size:
                    raise InvalidRecordsError("a record is longer than its batch")
                timestamp_delta, position = read_varint(body, position + 1)  # after the attributes
                offset_delta, position = read_varint(body, position)
                if position > end or not INT32_MIN <= offset_delta <= INT32_MAX:
                    raise InvalidRecordsError("a record is longer than its length says, or its offset than 32 bits")
                timestamp = self._fixed_timestamp
                if timestamp is None:
                    timestamp = as_int64(header.base_timestamp + timestamp_delta)
                offset = header.base_offset + offset_delta
                self._count += 1
                if self._low <= timestamp <= self._high and offset >= self._start_offset:
                    return offset, timestamp
                position = end
        except IndexError as error:
            raise InvalidRecordsError("a record ends early") from error
        self._position = position
        return None
