"""Budget for the reads of one step: bytes of batches to verify, and whether reads may wait for the device.

When it is used up, other tasks get their turn. Data outside of the system's page cache are read by a worker
(cold_reads.py).
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
"""Bytes that take a few milliseconds to verify; about a thousand small batches."""
BATCH_COST: Final = 4096
"""Cost of each batch in addition to its bytes: reading a header takes longer than verifying a small batch."""


class VerifyBudget:
    """Bytes that the reads of one step may verify; bytes that were verified before are free."""

    __slots__ = ("bytes_left", "cold", "is_short")

    def __init__(self, bytes_left: int = BUDGET_BYTES, cold: ColdReads | None = None) -> None:
        """Create a budget; without `cold`, reads wait for the device."""
        self.bytes_left = bytes_left
        self.cold = cold
        self.is_short = False
        """True if a read returned less than requested; the next read continues there."""

    def spend(self, data: bytes, position: int) -> int:
        """Spend the budget on the batches in `data` from `position` on, at least on one; return the end of the last."""
        size = len(data)
        while position < size:
            if size - position < BATCH_HEADER_BYTES:
                return size  # not a batch, which the verification reports
            length: int = _LENGTH.unpack_from(data, position + LENGTH_POSITION)[0]
            if length < LENGTH_MIN:
                return size
            length += LENGTH_OVERHEAD
            position = min(position + length, size)
            self.bytes_left -= length + BATCH_COST
            if self.bytes_left <= 0:
                break
        if position < size:
            self.is_short = True
        return position
