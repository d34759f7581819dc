"""Garbage collection in a process of kwire's own: the loop waits for it as seldom, and as short, as can be."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

RECORDS_MANY: Final = 50_000
"""Records loaded in one burst before gc.freeze is called. It is not called for fewer: objects that are in use at that
moment, and are part of a reference cycle when they are dropped, are never collected."""
BURST_SECONDS: Final = 10.0
"""Loads that are further apart are not at once."""
NEVER: Final = 2**31 - 1
THRESHOLDS: Final = (10_000, 2, NEVER)
"""The middle generation is collected after 30,000 new objects, which takes some milliseconds; with CPython's 10 it
would be 100,000 objects and 40 ms while the elements of a long request are made. A full collection traverses all
objects, which takes 50 ms with a thousand topics, and a second while requests of millions of elements are in memory:
CPython would begin one just then. FullCollections begins them instead."""
LOOK_SECONDS: Final = 10.0
COLLECTIONS_BETWEEN: Final = 60
"""Collections of the middle generation, each after 30,000 new objects, before a full one is of use."""
REQUEST_BYTES_FEW: Final = 64 * 1024
"""With less of long requests being served there are few objects made from them."""
LOOKS_MAX: Final = 60
"""After so many looks, ten minutes, a full collection that is due is made whatever is in memory."""
GROWN_BYTES: Final = 512 * 1024 * 1024
"""With so much more memory than there was since the last full collection, besides what long requests take, one is made
at once: what takes it may be in reference cycles."""
BYTES_FOR_EACH: Final = 20
"""Maximum bytes of memory for each byte of a long request, for its objects and those of its answer."""
PARTIAL_COLLECTIONS: Final = 100
"""Full collections that leave out what was alive at the one before, until one looks at everything again: what was
alive then, and is part of a reference cycle when it is dropped, waits for that one."""
FROZEN_MAX: Final = 500_000
"""With more objects that are kept nothing looks at everything: it would take longer than 100 ms."""


def collect_rarely() -> None:
    """Keep what a process needs for its life, and what it has at its start, from collections, and have them seldom.

    For a process of kwire's own, which runs FullCollections then: in another program its owner decides.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Makes full collections whose cost grows with what is new: with a thousand topics others would take 60 ms."""

    def __init__(self) -> None:
        self._made = 0

    def collect(self) -> None:
        """Collect, and leave what is alive out of the next ones."""
        self._made += 1
        if self._made % PARTIAL_COLLECTIONS == 0 and gc.get_freeze_count() <= FROZEN_MAX:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


class FullCollections:
    """Makes full collections when few requests are in memory."""

    def __init__(
        self,
        request_bytes: Callable[[], int],
        *,
        resident_bytes: Callable[[], int],
        collections: Callable[[], int] = lambda: gc.get_count()[2],
        collect: Callable[[], object] | None = None,
    ) -> None:
        """`request_bytes` tells how much of long requests is being served, `resident_bytes` what the process has of
        memory, `collections` how often the middle generation was collected since the last full collection.
        """
        self._request_bytes = request_bytes
        self._resident_bytes = resident_bytes
        self._bytes_before = resident_bytes()
        """The least since the last full collection."""
        self._collections = collections
        self._collect = Collector().collect if collect is None else collect
        self._looks = 0
        """Since a collection was due."""

    async def run(self) -> None:
        """For as long as the process runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Exception:
                logger.exception("no full garbage collection was made")

    def look(self) -> None:
        """Make a full collection if it is due and takes short, or if memory has grown: few objects may be large."""
        resident_bytes, request_bytes = self._resident_bytes(), self._request_bytes()
        self._bytes_before = min(self._bytes_before, resident_bytes)
        has_grown = resident_bytes - self._bytes_before >= GROWN_BYTES + BYTES_FOR_EACH * request_bytes
        is_due = self._collections() >= COLLECTIONS_BETWEEN
        self._looks = self._looks + 1 if is_due else 0
        if has_grown or (is_due and (request_bytes <= REQUEST_BYTES_FEW or self._looks >= LOOKS_MAX)):
            self._looks = 0
            self._collect()
            self._bytes_before = self._resident_bytes()


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
