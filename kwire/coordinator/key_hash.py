"""Which partition of an internal topic a group or a transactional id belongs to."""

from __future__ import annotations

from functools import lru_cache

HASHES_KEPT = 10_000
"""Ids whose hash is remembered: a busy broker's active groups, at about a hundred bytes each."""


@lru_cache(maxsize=HASHES_KEPT)
def java_string_hash(text: str) -> int:
    """What Java's String.hashCode says: over UTF-16 units, as a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] | data[position + 1] << 8)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_of(key: str, partition_count: int) -> int:
    """The partition of a key. The one number without a positive counterpart counts as 0, as in Kafka."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
