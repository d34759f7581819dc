"""Positions of the newest batches of a segment, with which reads at a log's end need no index."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

POSITIONS_KEPT: Final = 256
"""Number of positions at which the older half is dropped: 2 to 4 KB for each log that is written to."""


class Positions:
    """Map from base offset to position, for the batches that were appended last."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")

    def add(self, base_offset: int, position: int) -> None:
        """Add the batch that follows all known ones."""
        if len(self._offsets) >= POSITIONS_KEPT:
            del self._offsets[: POSITIONS_KEPT // 2]
            del self._positions[: POSITIONS_KEPT // 2]
        self._offsets.append(base_offset)
        self._positions.append(position)

    def find(self, base_offset: int) -> int:
        """Return the position of the batch with this base offset, -1 if unknown."""
        found = bisect_left(self._offsets, base_offset)
        if found < len(self._offsets) and self._offsets[found] == base_offset:
            return self._positions[found]
        return -1

    def cut(self, position: int) -> None:
        """Remove the batches from a position on."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]
