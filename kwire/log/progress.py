"""A line in the broker's log now and then about work that may take long."""

from __future__ import annotations

import logging
from typing import Final

from kwire.seams import Clock

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000.0
LOOK_BYTES: Final = 4 * 1024 * 1024
"""Between two looks at the clock: 60,000 batches of one record, about a second of a slow machine."""


class Progress:
    """Counts what is done of a known number; says so at the first, at the last, and every second in between.

    Work that is mostly over at once is `quiet`: only the lines in between are said.
    """

    def __init__(self, what: str, count: int, clock: Clock, *, quiet: bool = False) -> None:
        self._what = what
        self._quiet = quiet
        self._count = count
        self._clock = clock
        self._done = 0
        self._next_ms = clock.monotonic_ms() + INTERVAL_MS
        if not quiet:
            logger.info("%s: %d to do", what, count)

    def one_more(self) -> None:
        self._done += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_ms or (self._done == self._count and not self._quiet):
            self._next_ms = now_ms + INTERVAL_MS
            logger.info("%s: %d of %d done", self._what, self._done, self._count)


class BytesProgress:
    """Says every second how far one file has been read, if that takes so long."""

    def __init__(self, what: str, size: int, clock: Clock) -> None:
        self._what = what
        self._size = size
        self._clock = clock
        self._look_at = LOOK_BYTES
        self._next_ms = clock.monotonic_ms() + INTERVAL_MS

    def reached(self, position: int) -> None:
        """All before this position has been read."""
        if position < self._look_at:
            return
        self._look_at = position + LOOK_BYTES
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + INTERVAL_MS
            logger.info("%s: %d of %d MiB read", self._what, position >> 20, self._size >> 20)
