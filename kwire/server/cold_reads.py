"""Reads that would wait for the device: a worker does them first, so that the system has what is read then.

Records that consumers catch up on may be on the device only. Reading them takes milliseconds each, while everybody else
waits for the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from kwire.log.disk import DiskFailure
from kwire.log.verify_budget import ColdStretch
from kwire.seams import Workers

logger = logging.getLogger(__name__)

READ_BYTES: Final = 1024 * 1024
"""So much is in memory at a time."""


async def warm(stretches: Sequence[ColdStretch], workers: Workers) -> None:
    """Return when all was read once, or cannot be: whoever reads it finds out why."""
    pinned: list[ColdStretch] = []
    try:
        for stretch in stretches:
            stretch.file.pin()
            pinned.append(stretch)
        await workers.run(partial(_read, pinned))
    except DiskFailure as failure:
        logger.debug("cannot be read ahead: %s", failure)
    finally:
        for stretch in pinned:
            stretch.file.unpin()


def _read(stretches: Sequence[ColdStretch]) -> None:
    for file, position, length in stretches:
        end = min(position + length, file.size)
        for start in range(position, end, READ_BYTES):
            file.read(start, min(READ_BYTES, end - start))
