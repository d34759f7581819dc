"""Numbers that wrap around at the end of their range, as in Java and as the protocol requires."""

from __future__ import annotations

from typing import Final

SEQUENCE_MAX: Final = 2**31 - 1
INT64_LIMIT: Final = 2**63


def as_int64(total: int) -> int:
    """Return a sum as Java's long: a client may send timestamps whose sum overflows."""
    return total if -INT64_LIMIT <= total < INT64_LIMIT else (total + INT64_LIMIT) % (2 * INT64_LIMIT) - INT64_LIMIT


def next_sequence(sequence: int, increment: int) -> int:
    """Return the next sequence number, which wraps around from 2^31 - 1 to 0."""
    return (sequence + increment) & SEQUENCE_MAX
