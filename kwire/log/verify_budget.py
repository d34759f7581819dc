"""Budget of the reads of one step: how many batches they may verify, and whether they may wait for the device.

Others have their turn when it is used up. What is not in the system's page cache is left to a worker (`ColdStretch`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.log.scanning import LENGTH_MIN
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD

if TYPE_CHECKING:
    from kwire.log.disk import DiskFile

LENGTH_POSITION: Final = 8
_LENGTH: Final = Struct(">i")
BUDGET_BYTES: Final = 4 * 1024 * 1024
"""So much takes some milliseconds: about a thousand small batches."""
BATCH_COST: Final = 4096
"""Bytes that each batch counts for besides its own: to look at a header takes longer than to verify a small batch."""


HOT_BYTES: Final = 64 * 1024 * 1024
"""So much of what a process has appended last to a segment is taken to be in the page cache."""


class ColdStretch(NamedTuple):
    """Bytes of a file for which a read would wait."""

    file: DiskFile
    position: int
    length: int


class VerifyBudget:
    """Bytes that the reads of one step may verify; bytes that are verified already cost nothing."""

    __slots__ = ("cold", "is_short", "left")

    def __init__(self, left: int = BUDGET_BYTES, cold: list[ColdStretch] | None = None) -> None:
        """Without a list for what is `cold`, reads wait for the device."""
        self.left = left
        self.cold = cold
        """Stretches that were not read, because they are not in the page cache."""
        self.is_short = False
        """Whether a read has returned less than it was asked for: there is more, and the next read returns it."""

    def leaves_cold(self, file: DiskFile, start: int, end: int) -> bool:
        """Whether a stretch is not to be read now; it is noted."""
        if self.cold is None or file.is_cached(start, end - start):
            return False
        self.cold.append(ColdStretch(file, start, end - start))
        return True

    def take(self, data: bytes, position: int) -> int:
        """Spend the budget on the batches in data from position on, at least on one; return where the last one ends."""
        size = len(data)
        while position < size:
            if size - position < BATCH_HEADER_BYTES:
                return size  # no batch, which the verification reports
            length: int = _LENGTH.unpack_from(data, position + LENGTH_POSITION)[0]
            if length < LENGTH_MIN:
                return size
            length += LENGTH_OVERHEAD
            position = min(position + length, size)
            self.left -= length + BATCH_COST
            if self.left <= 0:
                break
        if position < size:
            self.is_short = True
        return position
