"""A bound on the memory that indexes of closed segments take: those that were used least recently are unloaded.

A segment that is closed keeps what it has in memory, about 5 MiB if it is full; unloaded, it has a page of each index
(index_pages.py). The active segment of each log keeps its own, which appends need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.log.segment import Segment

INDEX_BYTES_MAX: Final = 128 * 1024 * 1024
"""About 25 full segments that were closed last."""


class IndexMemory:
    """Loaded indexes of the closed segments of many logs."""

    def __init__(self, limit_bytes: int = INDEX_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._sizes: dict[Segment, int] = {}
        """By the time of their last use, the earliest first."""

    def use(self, segment: Segment) -> None:
        """Note that a segment's indexes are loaded and used now; others may be unloaded for them."""
        self.used_bytes -= self._sizes.pop(segment, 0)
        size = self._sizes[segment] = segment.index_bytes
        self.used_bytes += size
        if self.used_bytes > self.limit_bytes:
            self._make_room(segment)

    def forget(self, segment: Segment) -> None:
        """A segment is gone, or active again."""
        self.used_bytes -= self._sizes.pop(segment, 0)

    def _make_room(self, used: Segment) -> None:
        for segment in list(self._sizes):
            if self.used_bytes <= self.limit_bytes:
                return
            # What is not written yet is only in memory; a flush writes it.
            if segment is not used and segment.unload():
                self.forget(segment)
