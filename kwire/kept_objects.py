"""Excludes what lives long from garbage collection, which would traverse it again and again while the loop waits."""

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
THRESHOLDS: Final = (10_000, 10, 20)
"""A full collection traverses all objects, which takes 50 ms with a thousand topics. With CPython's (700, 10, 10) a
client whose requests have many elements causes one a second, with these one after two million objects more."""


def collect_rarely() -> None:
    """Keep what a process needs for its life, and what it has at its start, from collections, and have them seldom.

    For a process of kwire's own: in another program its owner decides.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


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
