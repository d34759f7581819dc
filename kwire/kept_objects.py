"""Excludes what coordinators have loaded from garbage collection, which would traverse it again and again."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

RECORDS_MANY: Final = 50_000
"""Records loaded in one burst before gc.freeze is called. It is not called for fewer: objects that are in use at that
moment, and are part of a reference cycle when they are dropped, are never collected."""
BURST_SECONDS: Final = 10.0
"""Loads that are further apart are not at once."""


class KeptObjects:
    """Counts what coordinators load."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._records = 0
        self._last = now()

    def loaded(self, count: int) -> None:
        """So many records more were loaded, within a few milliseconds."""
        now = self._now()
        if now - self._last > BURST_SECONDS:
            self._records = 0
        self._last = now
        self._records += count
        if self._records >= RECORDS_MANY:
            gc.freeze()
