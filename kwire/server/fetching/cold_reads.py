"""Cold reads: a worker reads records that are not in the page cache, so that the event
loop does not wait for the device.

Consumers that catch up may need records that are only on the device. Each read takes milliseconds, in
which the event loop would serve no connection. A device that does not answer delays only the fetches of
its records, for a bounded time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.log.cold_reads import ColdRange, ColdReads
from kwire.log.disk import DiskFailure
from kwire.seams import Workers

logger = logging.getLogger(__name__)

JOBS_MAX: Final = 2
"""Concurrent reads of a log directory; few, because the same workers make logs durable."""
FETCHES_MAX: Final = 16
"""Fetches that hold bytes read by a worker. With COLD_BYTES_MAX for each, this bounds the memory."""
WAIT_SECONDS_MAX = 5.0
"""Longest wait of a fetch for a device; after that, the response contains what is available."""


class ColdReader:
    """Reads in workers for all fetches of a broker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._fetches = asyncio.Semaphore(FETCHES_MAX)
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(JOBS_MAX))
        """Limits of concurrent reads, by log directory."""
        self._reading: set[asyncio.Task[None]] = set()

    async def warm(self, cold: ColdReads, is_wanted: Callable[[], bool]) -> None:
        """Return when every range was read once, is not needed any more, or cannot be read
        (the fetch then gets the error).

        The fetch counts towards FETCHES_MAX from now on, until it releases the bytes that it holds.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._enter(cold, is_wanted)
                by_directory: defaultdict[str, list[ColdRange]] = defaultdict(list)
                for cold_range in cold.take_added():
                    by_directory[_log_directory(cold_range)].append(cold_range)
                reading = [self._start(path, ranges, cold, is_wanted) for path, ranges in by_directory.items()]
                if reading:
                    await asyncio.wait(reading)
        except TimeoutError:
            cold.stop_waiting()  # a running read continues: its file stays pinned

    async def _enter(self, cold: ColdReads, is_wanted: Callable[[], bool]) -> None:
        if cold.when_released is not None:
            return
        await self._fetches.acquire()
        if is_wanted():
            cold.when_released = self._fetches.release
        else:
            self._fetches.release()

    def _start(
        self, path: str, ranges: Sequence[ColdRange], cold: ColdReads, is_wanted: Callable[[], bool]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._read(path, ranges, cold, is_wanted))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return task

    async def _read(
        self, path: str, ranges: Sequence[ColdRange], cold: ColdReads, is_wanted: Callable[[], bool]
    ) -> None:
        """Read the ranges of one log directory."""
        async with self._places[path]:
            pinned: list[ColdRange] = []
            try:
                for cold_range in ranges:
                    if is_wanted() and cold_range.file.cuts == cold_range.cuts:
                        cold_range.file.pin()
                        pinned.append(cold_range)
                read = await self._workers.run(partial(_read, pinned, is_wanted)) if pinned else ()
                if is_wanted():
                    cold.store(pinned, read)
            except DiskFailure as failure:
                logger.debug("cannot be read ahead: %s", failure)
            finally:
                for cold_range in pinned:
                    cold_range.file.unpin()


def _log_directory(cold_range: ColdRange) -> str:
    return cold_range.file.path.rsplit("/", 2)[0]


def _read(ranges: Sequence[ColdRange], is_wanted: Callable[[], bool]) -> list[bytes]:
    """Return the bytes of the ranges, until they are not needed any more."""
    found: list[bytes] = []
    for cold_range in ranges:
        if not is_wanted():
            break
        found.append(cold_range.file.read(cold_range.position, cold_range.length))
    return found
