"""Budget of the reads of one step: how many batches they may verify, and whether they may wait for the device.

Others have their turn when it is used up. What is not in the system's page cache is left to a worker (cold_reads.py).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kwire.log.scanning import LENGTH_MIN
from kwire.protocol.records import BATCH_HEADER_BYTES, LENGTH_OVERHEAD

if TYPE_CHECKING:
    from kwire.log.cold_reads import ColdReads

LENGTH_POSITION: Final = 8
_LENGTH: Final = Struct(">i")
BUDGET_BYTES: Final = 4 * 1024 * 1024
"""So much takes some milliseconds: about a thousand small batches."""
BATCH_COST: Final = 4096
"""Bytes that each batch counts for besides its own: to look at a header takes longer than to verify a small batch."""


class VerifyBudget:
    """Bytes that the reads of one step may verify; bytes that are verified already cost nothing."""

    __slots__ = ("cold", "is_short", "left")

    def __init__(self, left: int = BUDGET_BYTES, cold: ColdReads | None = None) -> None:
        """Without a place for what is `cold`, reads wait for the device."""
        self.left = left
        self.cold = cold
        self.is_short = False
        """Whether a read has returned less than it was asked for: there is more, and the next read returns it."""

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
