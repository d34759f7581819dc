"""Set of byte ranges that were checked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """Set of half-open ranges; adjacent and overlapping ranges are merged."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def contain(self, start: int, end: int) -> bool:
        """Return True if all of start..end is in the set."""
        found = bisect_right(self._starts, start) - 1
        return found >= 0 and self._ends[found] >= end

    def end_from(self, start: int) -> int:
        """Return the end of the range that contains `start`, or `start` itself if there is none."""
        found = bisect_right(self._starts, start) - 1
        return max(start, self._ends[found]) if found >= 0 else start

    def add(self, start: int, end: int) -> None:
        """Add a range, and merge it with those that it touches."""
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]

    def cut(self, end: int) -> None:
        """Remove everything from `end` on."""
        kept = [(start, min(stop, end)) for start, stop in zip(self._starts, self._ends, strict=True) if start < end]
        self._starts = [start for start, _ in kept]
        self._ends = [stop for _, stop in kept]
