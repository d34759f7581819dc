"""Loading of a shard: replays an internal partition's log into a state machine, in time slices."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kwire.chunks import in_turns
from kwire.coordinator.shard import Machine, Shard, ShardState
from kwire.log.disk import DiskFullError
from kwire.log.not_ready import ready_in_steps
from kwire.protocol.control_records import decode_marker
from kwire.protocol.error_codes import UnknownRecordTypeError
from kwire.protocol.records import NO_PRODUCER_ID, BatchHeader, Record, decode_batch, iterate_headers
from kwire.seams import Clock

logger = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
"""Bytes per read, which take a few milliseconds to decode. A larger batch is read whole."""
SLICE_MS = 10.0
"""Time for which the loader runs before it yields to other tasks."""
RECORDS_BETWEEN_CHECKS = 64
"""Records that are replayed between two checks of the clock."""
BYTES_BETWEEN_CHECKS = 16 * 1024
"""Bytes of records that are replayed between two checks of the clock: a share partition's state may be large."""
NO_DESCRIPTOR_PAUSE_SECONDS = 1.0
"""Pause before the next read of a log whose file cannot be opened for lack of a file descriptor."""


class Loader:
    """Loader of one shard.

    `run` stops at its next pause after the shard was closed; it can be cancelled at a pause.
    """

    def __init__(
        self, shard: Shard[Any, Any], clock: Clock, *, count_loaded: Callable[[int], None] = lambda _: None
    ) -> None:
        """Create a loader. At each pause it calls `count_loaded` with the number of records since the last pause."""
        self._shard = shard
        self._partition = shard.partition
        self._machine: Machine[Any] = shard.machine
        self._clock = clock
        self._count_loaded = count_loaded
        self._slice_started_ms = clock.monotonic_ms()
        self._records = self._reported = 0
        self._unchecked_bytes = 0
        """Bytes of records that were replayed since the last check of the clock."""
        self._unknown: Counter[str] = Counter()
        """Record types that could not be decoded, with their numbers."""

    async def run(self) -> int:
        """Replay everything up to the log's end, unless the shard is closed meanwhile; return the number of records."""
        try:
            return await self._replay_all()
        finally:
            if self._unknown:
                kinds = ", ".join(f"{record_type} ({count})" for record_type, count in sorted(self._unknown.items()))
                place = f"{self._partition.topic}-{self._partition.index}"
                logger.warning("%s: skipped %d records: %s", place, self._unknown.total(), kinds)

    async def _replay_all(self) -> int:
        partition = self._partition
        offset = partition.log.log_start_offset
        while offset < partition.log.log_end_offset:  # the log may move to another directory meanwhile
            try:
                data = await in_turns(ready_in_steps(partial(self._read, offset)))
            except DiskFullError as error:  # no file descriptor is left
                logger.warning("%r is loaded later: %s", partition.log, error)
                await asyncio.sleep(NO_DESCRIPTOR_PAUSE_SECONDS)
                if self._is_stopped():
                    return self._records
                continue
            if self._is_stopped():
                return self._records
            assert data, f"nothing to read at {offset} of {partition.log!r}"
            for position, header in iterate_headers(data):
                await self._batch(data, position, header, offset)
                if self._is_stopped():
                    return self._records
                offset = header.next_offset
        return self._records

    def _read(self, offset: int) -> bytes:
        return self._partition.log.read(offset, READ_BYTES)

    def _is_stopped(self) -> bool:
        """Return True if the shard was closed: nothing would clean up records that are replayed after that."""
        return self._shard.state is not ShardState.LOADING

    async def _batch(self, data: bytes, position: int, header: BatchHeader, first_offset: int) -> None:
        if header.is_control:
            marker = decode_marker(memoryview(data)[position : position + header.size_in_bytes])
            if marker is not None:
                self._machine.replay_marker(header.producer_id, is_commit=marker.is_commit)
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in decode_batch(data, position):
            if record.offset >= first_offset:
                self._record(record, producer_id)
                self._unchecked_bytes += len(record.value or b"")
                await self._pause_if_due()
                if self._is_stopped():
                    return

    def _record(self, record: Record, producer_id: int) -> None:
        if record.key is None:
            logger.warning("offset %d of %r has no key; skipped", record.offset, self._partition.log)
            return
        try:
            decoded = self._machine.decode(record.key, record.value)
        except UnknownRecordTypeError as error:
            self._unknown[str(error)] += 1
            return
        self._machine.replay(decoded, record.offset, producer_id)

    async def _pause_if_due(self) -> None:
        self._records += 1
        if self._records % RECORDS_BETWEEN_CHECKS and self._unchecked_bytes < BYTES_BETWEEN_CHECKS:
            return
        self._unchecked_bytes = 0
        if self._clock.monotonic_ms() - self._slice_started_ms >= SLICE_MS:
            self._count_loaded(self._records - self._reported)
            self._reported = self._records
            await asyncio.sleep(0)
            self._slice_started_ms = self._clock.monotonic_ms()
