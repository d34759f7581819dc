"""Mapping of group ids and transactional ids to partitions of an internal topic."""

from __future__ import annotations

from functools import lru_cache

HASHES_KEPT = 10_000
"""Number of ids whose hash is cached: the active groups of a busy broker, at about a hundred bytes each."""


@lru_cache(maxsize=HASHES_KEPT)
def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: computed over UTF-16 units, as a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] | data[position + 1] << 8)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition of a key. As in Kafka, the smallest 32-bit number counts as 0."""
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
