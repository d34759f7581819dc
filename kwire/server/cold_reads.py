"""Reads that would wait for the device: a worker does them, and hands over what it has read.

Records that consumers catch up on may be on the device only. Reading them takes milliseconds each, while everybody else
waits for the event loop. A device that does not answer holds up nobody but the fetches that want its records, and these
not for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.log.cold_reads import ColdReads, ColdStretch
from kwire.log.disk import DiskFailure
from kwire.seams import Workers

logger = logging.getLogger(__name__)

JOBS_MAX: Final = 2
"""Reads of a log directory at the same time: workers make logs durable, too."""
FETCHES_MAX: Final = 16
"""Fetches that hold what was read for them; with COLD_BYTES_MAX each this bounds the memory."""
WAIT_SECONDS_MAX = 5.0
"""How long a fetch waits for a device; then it is answered with what there is."""


class ColdReader:
    """Reads for all fetches of a broker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._fetches = asyncio.Semaphore(FETCHES_MAX)
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(JOBS_MAX))
        """By log directory."""
        self._reading: set[asyncio.Task[None]] = set()

    async def warm(self, cold: ColdReads, is_wanted: Callable[[], bool]) -> None:
        """Return when all was read once, is not wanted any more, or cannot be read: whoever reads it finds out why.

        The fetch has its place from now on until it releases what it holds.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._enter(cold, is_wanted)
                by_directory: defaultdict[str, list[ColdStretch]] = defaultdict(list)
                for stretch in cold.take():
                    by_directory[_log_directory(stretch)].append(stretch)
                reading = [self._start(path, stretches, cold, is_wanted) for path, stretches in by_directory.items()]
                if reading:
                    await asyncio.wait(reading)
        except TimeoutError:
            cold.give_up()  # a read that is under way goes on: its file stays pinned

    async def _enter(self, cold: ColdReads, is_wanted: Callable[[], bool]) -> None:
        if cold.when_released is not None:
            return
        await self._fetches.acquire()
        if is_wanted():
            cold.when_released = self._fetches.release
        else:
            self._fetches.release()

    def _start(
        self, path: str, stretches: Sequence[ColdStretch], cold: ColdReads, is_wanted: Callable[[], bool]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._read(path, stretches, cold, is_wanted))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return task

    async def _read(
        self, path: str, stretches: Sequence[ColdStretch], cold: ColdReads, is_wanted: Callable[[], bool]
    ) -> None:
        """Read what is in one log directory."""
        async with self._places[path]:
            pinned: list[ColdStretch] = []
            try:
                for stretch in stretches:
                    if is_wanted() and stretch.file.cuts == stretch.cuts:
                        stretch.file.pin()
                        pinned.append(stretch)
                read = await self._workers.run(partial(_read, pinned, is_wanted)) if pinned else ()
                if is_wanted():
                    cold.hold(pinned, read)
            except DiskFailure as failure:
                logger.debug("cannot be read ahead: %s", failure)
            finally:
                for stretch in pinned:
                    stretch.file.unpin()


def _log_directory(stretch: ColdStretch) -> str:
    return stretch.file.path.rsplit("/", 2)[0]


def _read(stretches: Sequence[ColdStretch], is_wanted: Callable[[], bool]) -> list[bytes]:
    """Return what is stored in the stretches, as far as it is wanted."""
    found: list[bytes] = []
    for stretch in stretches:
        if not is_wanted():
            break
        found.append(stretch.file.read(stretch.position, stretch.length))
    return found
