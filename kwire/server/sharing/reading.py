"""Reading of the log for one share fetch: whole batches from the first record that can be acquired on.

It stops when the batches contain as many records as the fetch may acquire, and reads no more bytes than needed for
that: records may be small, and max.bytes is large.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from kwire.chunks import turn
from kwire.cluster.partitions.partition import READ_COMMITTED, Partition
from kwire.log.cold_reads import ColdReads
from kwire.log.disk import DiskFailure
from kwire.log.errors import NotReadyError
from kwire.log.verify_budget import VerifyBudget
from kwire.protocol.control_records import ControlRecordType, control_record_type
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import AbortedTransaction
from kwire.protocol.records import BatchHeader, decode_batch, iterate_headers
from kwire.server.fetching.aborted_lists import aborted_in
from kwire.server.fetching.cold_reads import ColdReader
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.offset_reset import isolation_level_of
from kwire.server.sharing.states import Acquired, Span

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
"""Bytes that are read and walked in one step."""
BATCHES_AT_ONCE: Final = 512
"""Batches whose headers are walked in one step."""
BATCHES_MAX: Final = 8192
"""Batches of one partition that a fetch reads; this bounds the time and memory of small ones."""


class Batches:
    """Batches that were read from one share partition."""

    __slots__ = ("_parts", "_positions", "aborted", "error", "fetch_offset", "has_all", "led", "size", "spans")

    def __init__(self, led: LedSharePartition, fetch_offset: int) -> None:
        self.led = led
        self.fetch_offset = fetch_offset
        self._parts: list[bytes] = []
        self.size = 0
        """Bytes of the batches."""
        self.spans: list[Span] = []
        self.aborted: list[Span] = []
        """Batches of aborted transactions, for read_committed."""
        self.has_all = False
        """True if the fetch can acquire no more records of this partition."""
        self.error: KafkaError | None = None
        self._positions: list[int] = []
        """Position of each batch in the data."""

    def add(self, data: bytes, headers: Sequence[tuple[int, BatchHeader]]) -> None:
        end = headers[-1][0] + headers[-1][1].size_in_bytes
        self._parts.append(data[:end])
        self.spans += [Span(header.base_offset, header.last_offset) for _, header in headers]
        self._positions += [self.size + position for position, _ in headers]
        self.size += end

    def data(self) -> bytes:
        """Return all batches."""
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def overlapping(self, acquired: Sequence[Acquired]) -> bytes:
        """Return the batches from the one with the first acquired record to the one with the last."""
        first, last = acquired[0].first, acquired[-1].last
        inside = [index for index, span in enumerate(self.spans) if span.last >= first and span.first <= last]
        if not inside:
            return self.data()
        end = self._positions[inside[-1] + 1] if inside[-1] + 1 < len(self.spans) else self.size
        return self.data()[self._positions[inside[0]] : end]


class ShareReading:
    """Reading of the partitions of one share fetch."""

    def __init__(self, cold_reads: ColdReader, is_wanted: Callable[[], bool]) -> None:
        self._cold_reads = cold_reads
        self._is_wanted = is_wanted
        """Returns True if the client still waits for the response."""
        self._cold = ColdReads()

    def release(self) -> None:
        """Release the bytes that workers have read."""
        self._cold.release()

    async def read(self, led: LedSharePartition, records_max: int, bytes_max: int, *, min_one_batch: bool) -> Batches:
        """Return batches of a share partition; the caller has its fetch lock."""
        assert led.state is not None
        batches = Batches(led, led.state.next_fetch_offset())
        try:
            last_wanted = led.state.last_wanted(batches.fetch_offset, records_max)
            await self._read(batches, last_wanted, bytes_max, min_one_batch=min_one_batch)
            if batches.spans and isolation_level_of(led.settings()) == READ_COMMITTED:
                batches.aborted = await self._aborted(led.partition, batches)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                led.log_start_moved()  # the next fetch begins there
            else:
                batches.error = error
        except DiskFailure as failure:
            logger.error("%r: %s", led, failure)  # noqa: TRY400 no traceback needed
            batches.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return batches

    async def _read(self, batches: Batches, last_wanted: int, bytes_max: int, *, min_one_batch: bool) -> None:
        led, offset = batches.led, batches.fetch_offset
        size_max = CHUNK_BYTES
        while led.failure is None and self._is_wanted() and len(batches.spans) < BATCHES_MAX:
            limit = led.readable_end
            left = bytes_max - batches.size
            is_first = min_one_batch and not batches.size
            if offset >= limit or (left <= 0 and not is_first):
                return
            try:
                data = led.partition.log.read(
                    offset,
                    max(min(left, size_max), 0),
                    limit_offset=limit,
                    min_one_batch=is_first,
                    budget=VerifyBudget(cold=self._cold),
                )
            except NotReadyError:
                await turn()
                continue
            if self._cold:
                await self._cold_reads.warm(self._cold, self._is_wanted)
            elif not data and size_max < left:
                size_max = left  # the next batch is larger than a chunk
            elif not data:
                return
            else:
                offset = await self._walk(batches, data, last_wanted)
                if batches.has_all:
                    return
                size_max = CHUNK_BYTES

    async def _walk(self, batches: Batches, data: bytes, last_wanted: int) -> int:
        """Add batches up to the one with the last wanted record; return the offset behind them."""
        headers: list[tuple[int, BatchHeader]] = []
        for number, (position, header) in enumerate(iterate_headers(data), 1):
            headers.append((position, header))
            if header.last_offset >= last_wanted:
                batches.has_all = True
                break
            if number % BATCHES_AT_ONCE == 0:
                await turn()
        batches.add(data, headers)
        return headers[-1][1].next_offset

    async def _aborted(self, partition: Partition, batches: Batches) -> list[Span]:
        """Return the batches that belong to aborted transactions."""
        while True:
            try:
                transactions = aborted_in(partition, batches.fetch_offset, batches.data())
            except NotReadyError:
                await turn()
                continue
            return _aborted_batches(batches.data(), transactions) if transactions else []


def _aborted_batches(data: bytes, transactions: Sequence[AbortedTransaction]) -> list[Span]:
    """Return the batches of aborted transactions: from the first offset of one up to its abort marker."""
    found: list[Span] = []
    open_producers: set[int] = set()
    to_come = sorted(transactions, key=lambda each: -each.first_offset)
    for position, header in iterate_headers(data):
        if header.producer_id < 0:
            continue
        while to_come and to_come[-1].first_offset <= header.last_offset:
            open_producers.add(to_come.pop().producer_id)
        if header.is_control:
            if _is_abort(data, position):
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            found.append(Span(header.base_offset, header.last_offset))
    return found


def _is_abort(data: bytes, position: int) -> bool:
    records = decode_batch(data, position)
    return bool(records) and control_record_type(records[0].key) == ControlRecordType.ABORT
