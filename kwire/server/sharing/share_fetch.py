"""Share fetch: acquires records of some share partitions, and waits for min_bytes up to max_wait_ms.

It waits without polling. Its share partitions wake it when records are appended or released, when a lock expires, and
when another fetch has released the fetch lock. It reads only the partitions that may have something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kwire.chunks import turn
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.led_share_partition import LedSharePartition
from kwire.server.sharing.reading import Batches, ShareReading
from kwire.server.sharing.states import Acquired

PARTITIONS_AT_ONCE: Final = 64
"""Share partitions whose fetch lock is taken, or which are read, in one step."""
URGENT: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
"""Errors that are answered at once. For other errors the client waits, because it would only repeat its request."""


class Fetched(NamedTuple):
    """Result of one share partition: records with those that were acquired, or an error."""

    records: bytes
    acquired: list[Acquired]
    error: KafkaError | None = None


class FetchLimits(NamedTuple):
    """Limits of one share fetch."""

    bytes_min: int
    bytes_max: int
    wait_ms: int


class ShareFetch:
    """Share fetch while it is served."""

    def __init__(
        self,
        asked: Asked,
        limits: FetchLimits,
        leds: Sequence[LedSharePartition],
        *,
        reading: ShareReading,
        output: OutputMemory,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._asked = asked
        self._limits = limits
        self._leds = leds
        self._reading = reading
        self._output = output
        self._is_wanted = is_wanted
        """Returns False if the member has left."""
        self._ready: dict[LedSharePartition, None] = dict.fromkeys(leds)
        """Share partitions that may have something to acquire."""
        self._was_woken = False
        """True if a share partition has called since the last attempt began."""
        self._woken: asyncio.Future[None] | None = None
        """Set while the fetch waits."""
        self._held: dict[LedSharePartition, None] = {}
        """Share partitions whose fetch lock this fetch has."""
        self._count = 0
        """Number of acquired records."""
        self._is_over = False
        """True if the fetch is to be answered."""
        self.fetched: dict[LedSharePartition, Fetched] = {}
        self.reserved_bytes = 0
        """Bytes of the records. They count as output until the caller releases them."""

    async def run(self) -> None:
        """Acquire records, and wait while there are too few."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(self._limits.wait_ms, 0) / 1000.0
        for led in self._leds:
            led.wait(self)
        try:
            while True:
                self._was_woken = False
                is_last = loop.time() >= deadline
                await self._attempt(is_last=is_last)
                if self._is_over or is_last or not self._is_wanted():
                    return
                if not self._was_woken:
                    await self._wait_until(deadline)
        finally:
            for led in self._leds:
                led.stop_waiting(self)
                led.looked_at()

    async def add_empty(self, leds: Sequence[LedSharePartition]) -> None:
        """Add a result without records for those share partitions that could have been fetched, but have no result."""
        for number, led in enumerate(leds, 1):
            if led not in self.fetched and led.can_be_fetched():
                self.fetched[led] = Fetched(b"", [])
            if number % PARTITIONS_AT_ONCE == 0:
                await turn()

    def look_at(self, led: LedSharePartition) -> None:
        self._ready[led] = None
        self._was_woken = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _wait_until(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_at(deadline, self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None

    async def _attempt(self, *, is_last: bool) -> None:
        """Read the share partitions that may have something, and acquire records if there is enough."""
        leds, self._ready = list(self._ready), {}
        try:
            await self._lock(leds)
            unsatisfied = await self._read(is_last=is_last)
        finally:
            self._reading.release()
            while self._held:
                self._release(next(iter(self._held)))
        self._ready.update(dict.fromkeys(batches.led for batches in unsatisfied))
        for led in leds:
            led.looked_at()

    async def _lock(self, leds: Sequence[LedSharePartition]) -> None:
        for number, led in enumerate(leds, 1):
            if led.failure is not None:
                self._add_error(led, led.failure)
            elif led.take_fetch_lock(self):
                self._held[led] = None
            if number % PARTITIONS_AT_ONCE == 0:
                await turn()

    def _release(self, led: LedSharePartition) -> None:
        del self._held[led]
        led.release_fetch_lock(self)

    def _add_error(self, led: LedSharePartition, error: KafkaError) -> None:
        self.fetched[led] = Fetched(b"", [], error)
        self._is_over |= error.code in URGENT

    async def _read(self, *, is_last: bool) -> list[Batches]:
        """Read, and acquire from the moment on when there is enough; return batches that are too few."""
        read: list[Batches] = []
        size = 0
        if self._limits.bytes_min <= 0 and self._held:
            self._is_over = True
        is_enough = is_last or self._is_over
        share = self._limits.bytes_max // max(len(self._held), 1)
        for number, led in enumerate(list(self._held), 1):
            if number % PARTITIONS_AT_ONCE == 0:
                await turn()
            left = self._asked.records_max - self._count
            if left <= 0:
                break
            bytes_max = min(share, self._limits.bytes_max - size)
            batches = await self._reading.read(led, left, bytes_max, min_one_batch=not size)
            if not self._is_wanted():
                return []
            if led.failure is not None or batches.error is not None:
                self._add_error(led, batches.error or led.failure or KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                is_enough |= self._is_over
            elif batches.size:
                read.append(batches)
                size += batches.size
                is_enough |= size >= self._limits.bytes_min or batches.has_all
            else:
                self._release(led)
            if is_enough:
                self._acquire(read)
                read = []
        if is_enough:
            self._acquire(read)
            return []
        return read

    def _acquire(self, read: Sequence[Batches]) -> None:
        for batches in read:
            led = batches.led
            asked = self._asked._replace(records_max=self._asked.records_max - self._count)
            acquired = led.acquire(self, asked, batches.fetch_offset, batches.spans, batches.aborted)
            self._is_over = True
            if acquired:
                records = batches.overlapping(acquired)
                self.fetched[led] = Fetched(records, acquired)
                self._count += sum(last - first + 1 for first, last, _ in acquired)
                self.reserved_bytes += len(records)
                self._output.reserve(len(records))
            self._release(led)
