"""Progress lines in the broker's log about work that may take long."""

from __future__ import annotations

import logging
from typing import Final

from kwire.seams import Clock

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000.0
CHECK_BYTES: Final = 4 * 1024 * 1024
"""Bytes between two checks of the clock: 60,000 batches of one record, about a second on a slow machine."""


class Progress:
    """Progress of a known number of items; logged at the first, at the last, and every second in between.

    For work that is usually fast, `quiet` omits the first and the last line.
    """

    def __init__(self, task: str, count: int, clock: Clock, *, quiet: bool = False) -> None:
        self._task = task
        self._quiet = quiet
        self._count = count
        self._clock = clock
        self._done = 0
        self._next_ms = clock.monotonic_ms() + INTERVAL_MS
        if not quiet:
            logger.info("%s: %d to do", task, count)

    def count_one(self) -> None:
        self._done += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_ms or (self._done == self._count and not self._quiet):
            self._next_ms = now_ms + INTERVAL_MS
            logger.info("%s: %d of %d done", self._task, self._done, self._count)


class BytesProgress:
    """Progress of the read of one file, logged every second."""

    def __init__(self, task: str, size: int, clock: Clock) -> None:
        self._task = task
        self._size = size
        self._clock = clock
        self._check_at = CHECK_BYTES
        self._next_ms = clock.monotonic_ms() + INTERVAL_MS

    def reached(self, position: int) -> None:
        """Record that everything before this position has been read."""
        if position < self._check_at:
            return
        self._check_at = position + CHECK_BYTES
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + INTERVAL_MS
            logger.info("%s: %d of %d MiB read", self._task, position >> 20, self._size >> 20)
