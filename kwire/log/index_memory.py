"""Memory limit for indexes of closed segments: the least recently used ones are unloaded.

A closed segment keeps its indexes in memory, about 5 MiB if it is full. Unloaded, it keeps one page of each index
(index_pages.py). The active segment of each log is not counted, because appends need its indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.log.segment import Segment

INDEX_BYTES_MAX: Final = 128 * 1024 * 1024
"""Memory of about 25 full segments."""


class IndexMemory:
    """Loaded indexes of the closed segments of many logs."""

    def __init__(self, limit_bytes: int = INDEX_BYTES_MAX) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._sizes: dict[Segment, int] = {}
        """Size by segment, in the order of the last use, oldest first."""

    def use(self, segment: Segment) -> None:
        """Record the use of a segment's indexes, which are loaded; unload others if the limit is exceeded."""
        self.used_bytes -= self._sizes.pop(segment, 0)
        size = self._sizes[segment] = segment.index_bytes
        self.used_bytes += size
        if self.used_bytes > self.limit_bytes:
            self._unload_oldest(segment)

    def remove(self, segment: Segment) -> None:
        """Drop a segment that was removed or is active again."""
        self.used_bytes -= self._sizes.pop(segment, 0)

    def _unload_oldest(self, used: Segment) -> None:
        for segment in list(self._sizes):
            if self.used_bytes <= self.limit_bytes:
                return
            # Entries that are not written exist only in memory; a flush writes them.
            if segment is not used and segment.unload():
                self.remove(segment)
