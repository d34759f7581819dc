"""Map from each key in the dirty part of a log to its last offset, bounded by memory.

Kafka keeps 16 bytes of hash and 8 of offset per key in one array of log.cleaner.dedupe.buffer.size. A dict of the keys
themselves is several times faster in Python, and has no hash collisions between keys. It needs more memory per key, so
a round covers fewer keys with the same setting. The bound is also in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 150
"""Memory of an entry in addition to the key's bytes: dict slot and two object headers. Measured with a million keys."""


class OffsetMap:
    """Map from key to offset, up to latest_offset."""

    __slots__ = ("bytes_max", "latest_offset", "offsets", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.offsets: dict[bytes | None, int] = {}
        """Offset by key, read by the filter's inner loop; never contains a record without a key."""
        self.used_bytes = 0
        self.latest_offset = -1
        """All records up to this offset are in the map; records above it are kept unconditionally."""

    @property
    def is_full(self) -> bool:
        """True if the map has reached its size. One batch always fits, so that every round makes progress."""
        return self.used_bytes >= self.bytes_max

    def put(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> None:
        """Add records, in their order."""
        if not keys:
            return
        entries = self.offsets
        before = len(entries)
        entries.update(zip(keys, offsets, strict=True))
        added = len(entries) - before
        if added:
            self.used_bytes += added * (ENTRY_BYTES + sum(len(key) for key in keys if key is not None) // len(keys))
        entries.pop(None, None)

    def advance(self, offset: int) -> None:
        self.latest_offset = max(self.latest_offset, offset)
