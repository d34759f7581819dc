"""Reads that would wait for the device: a worker does them first, so that the system has what is read then.

Records that consumers catch up on may be on the device only. Reading them takes milliseconds each, while everybody else
waits for the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.log.cold_reads import ColdStretch
from kwire.log.disk import DiskFailure
from kwire.seams import Workers

logger = logging.getLogger(__name__)

READ_BYTES: Final = 1024 * 1024
"""So much is in memory at a time."""
JOBS_MAX: Final = 2
"""Fetches that are read for at the same time: workers make logs durable, too."""


class ColdReader:
    """Reads for all fetches of a broker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._places = asyncio.Semaphore(JOBS_MAX)

    async def warm(self, stretches: Sequence[ColdStretch], is_wanted: Callable[[], bool]) -> None:
        """Return when all was read once, is not wanted any more, or cannot be read: whoever reads it finds out why."""
        async with self._places:
            pinned: list[ColdStretch] = []
            try:
                for stretch in stretches:
                    stretch.file.pin()
                    pinned.append(stretch)
                await self._workers.run(partial(_read, pinned, is_wanted))
            except DiskFailure as failure:
                logger.debug("cannot be read ahead: %s", failure)
            finally:
                for stretch in pinned:
                    stretch.file.unpin()


def _read(stretches: Sequence[ColdStretch], is_wanted: Callable[[], bool]) -> None:
    for file, position, length in stretches:
        end = min(position + length, file.size)
        for start in range(position, end, READ_BYTES):
            if not is_wanted():
                return
            file.read(start, min(READ_BYTES, end - start))
