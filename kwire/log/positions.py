"""Where the newest batches of a segment start: readers at a log's end find them without an index."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

POSITIONS_KEPT: Final = 256
"""The older half goes when there are as many: 2 to 4 KB for each log that is written to."""


class Positions:
    """Base offset -> position of the last batches that were appended."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")

    def note(self, base_offset: int, position: int) -> None:
        """Add the batch that comes after all that are known."""
        if len(self._offsets) >= POSITIONS_KEPT:
            del self._offsets[: POSITIONS_KEPT // 2]
            del self._positions[: POSITIONS_KEPT // 2]
        self._offsets.append(base_offset)
        self._positions.append(position)

    def find(self, base_offset: int) -> int:
        """Return the position of the batch that begins with this offset, -1 if it is not known."""
        found = bisect_left(self._offsets, base_offset)
        if found < len(self._offsets) and self._offsets[found] == base_offset:
            return self._positions[found]
        return -1

    def cut(self, position: int) -> None:
        """Forget the batches from a position on."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]
