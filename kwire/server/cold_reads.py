"""Reads that would wait for the device: a worker does them, and hands over what it has read.

Records that consumers catch up on may be on the device only. Reading them takes milliseconds each, while everybody else
waits for the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kwire.log.cold_reads import ColdReads, ColdStretch
from kwire.log.disk import DiskFailure
from kwire.seams import Workers

logger = logging.getLogger(__name__)

JOBS_MAX: Final = 2
"""Fetches that are read for at the same time: workers make logs durable, too."""


class ColdReader:
    """Reads for all fetches of a broker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._places = asyncio.Semaphore(JOBS_MAX)

    async def warm(self, cold: ColdReads, is_wanted: Callable[[], bool]) -> None:
        """Return when all was read once, is not wanted any more, or cannot be read: whoever reads it finds out why."""
        stretches = cold.take()
        async with self._places:
            pinned: list[ColdStretch] = []
            try:
                for stretch in stretches:
                    stretch.file.pin()
                    pinned.append(stretch)
                cold.hold(stretches, await self._workers.run(partial(_read, stretches, is_wanted)))
            except DiskFailure as failure:
                logger.debug("cannot be read ahead: %s", failure)
            finally:
                for stretch in pinned:
                    stretch.file.unpin()


def _read(stretches: Sequence[ColdStretch], is_wanted: Callable[[], bool]) -> list[bytes]:
    """Return what is stored in the stretches, as far as it is wanted."""
    found: list[bytes] = []
    for stretch in stretches:
        if not is_wanted():
            break
        found.append(stretch.file.read(stretch.position, stretch.length))
    return found
