"""Numbers that wrap where their width ends, as Java's do and as the protocol counts on."""

from __future__ import annotations

from typing import Final

SEQUENCE_MAX: Final = 2**31 - 1
INT64_LIMIT: Final = 2**63


def as_int64(total: int) -> int:
    """What a sum is as a long of Java's: a client may send timestamps that add up to more."""
    return total if -INT64_LIMIT <= total < INT64_LIMIT else (total + INT64_LIMIT) % (2 * INT64_LIMIT) - INT64_LIMIT


def next_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers wrap from 2^31 - 1 to 0."""
    return (sequence + increment) & SEQUENCE_MAX
