"""Garbage collection settings for kwire's own processes: few and short pauses of the event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

RECORDS_MANY: Final = 50_000
"""Number of records loaded in one burst from which gc.freeze is called.

Frozen objects that become part of a reference cycle are never collected, so it is not called for fewer records.
"""
BURST_SECONDS: Final = 10.0
"""Loads that are further apart belong to different bursts."""
NEVER: Final = 2**31 - 1
THRESHOLDS: Final = (10_000, 2, NEVER)
"""Thresholds of CPython's collector.

The middle generation is collected after 30,000 new objects, which takes a few milliseconds. With CPython's default of
10, it would be 100,000 objects and 40 ms while the elements of a long request are created. A full collection traverses
all objects. That takes 50 ms with a thousand topics, and a second while requests with millions of elements are in
memory. CPython would begin one at just that time. FullCollections begins full collections instead.
"""
CHECK_SECONDS: Final = 10.0
COLLECTIONS_BETWEEN: Final = 60
"""Collections of the middle generation, each after 30,000 new objects, after which a full collection is due."""
REQUEST_BYTES_FEW: Final = 64 * 1024
"""Bytes of long requests in progress below which few objects depend on them."""
CHECKS_MAX: Final = 60
"""Checks (ten minutes) after which a due full collection is no longer postponed."""
GROWTH_BYTES_MAX: Final = 512 * 1024 * 1024
"""Growth of memory since the last full collection, besides that of long requests, after which one is made at once.

Objects in reference cycles may be the cause.
"""
BYTES_FOR_EACH: Final = 20
"""Upper bound of the memory per byte of a long request, for its objects and those of its answer."""
PARTIAL_COLLECTIONS: Final = 100
"""Full collections that skip older objects before one includes all objects.

An older object that becomes part of a reference cycle stays in memory until then.
"""
FROZEN_MAX: Final = 500_000
"""Number of frozen objects above which no collection includes all objects, since it would take longer than 100 ms."""


def collect_rarely() -> None:
    """Exclude the objects that exist at start from collections, and make collections rare.

    Only for kwire's own processes, which then run FullCollections; in another program its owner decides.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Full collections whose cost depends on new objects only; otherwise they take 60 ms with a thousand topics."""

    def __init__(self) -> None:
        self._made = 0

    def collect(self) -> None:
        """Collect, and exclude the surviving objects from later collections."""
        self._made += 1
        if self._made % PARTIAL_COLLECTIONS == 0 and gc.get_freeze_count() <= FROZEN_MAX:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


class FullCollections:
    """Scheduler of full collections for times when few requests are in memory."""

    def __init__(
        self,
        request_bytes: Callable[[], int],
        *,
        resident_bytes: Callable[[], int],
        collections: Callable[[], int] = lambda: gc.get_count()[2],
        collect: Callable[[], object] | None = None,
    ) -> None:
        """Create a scheduler.

        `request_bytes` returns the size of long requests in progress, `resident_bytes` the memory of the process.
        `collections` returns the number of collections of the middle generation since the last full one.
        """
        self._request_bytes = request_bytes
        self._resident_bytes = resident_bytes
        self._bytes_before = resident_bytes()
        """Least memory since the last full collection."""
        self._collections = collections
        self._collect = Collector().collect if collect is None else collect
        self._checks = 0
        """Checks since a collection became due."""

    async def run(self) -> None:
        """Check periodically for as long as the process runs."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                self.collect_if_due()
            except Exception:
                logger.exception("no full garbage collection was made")

    def collect_if_due(self) -> None:
        """Make a full collection if one is due and will be short, or if memory has grown much."""
        resident_bytes, request_bytes = self._resident_bytes(), self._request_bytes()
        self._bytes_before = min(self._bytes_before, resident_bytes)
        has_grown = resident_bytes - self._bytes_before >= GROWTH_BYTES_MAX + BYTES_FOR_EACH * request_bytes
        is_due = self._collections() >= COLLECTIONS_BETWEEN
        self._checks = self._checks + 1 if is_due else 0
        if has_grown or (is_due and (request_bytes <= REQUEST_BYTES_FEW or self._checks >= CHECKS_MAX)):
            self._checks = 0
            self._collect()
            self._bytes_before = self._resident_bytes()


class KeptObjects:
    """Counter of the records that coordinators load."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._records = 0
        self._last = now()

    def loaded(self, count: int) -> None:
        """Count records that were loaded within the last few milliseconds."""
        now = self._now()
        if now - self._last > BURST_SECONDS:
            self._records = 0
        self._last = now
        self._records += count
        if self._records >= RECORDS_MANY:
            gc.freeze()
