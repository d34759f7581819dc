"""A line in the broker's log now and then about work that may take long."""

from __future__ import annotations

import logging
from typing import Final

from kwire.seams import Clock

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000.0


class Progress:
    """Counts what is done of a known number; says so at the first, at the last, and every second in between."""

    def __init__(self, what: str, count: int, clock: Clock) -> None:
        self._what = what
        self._count = count
        self._clock = clock
        self._done = 0
        self._next_ms = clock.monotonic_ms() + INTERVAL_MS
        logger.info("%s: %d to do", what, count)

    def one_more(self) -> None:
        self._done += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_ms or self._done == self._count:
            self._next_ms = now_ms + INTERVAL_MS
            logger.info("%s: %d of %d done", self._what, self._done, self._count)
