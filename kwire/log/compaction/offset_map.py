"""The last offset of each key in the dirty part of a log, as far as memory allows.

Kafka keeps 16 bytes of hash and 8 of offset per key in one array of log.cleaner.dedupe.buffer.size. A dict of the keys
themselves is several times faster in Python, and cannot take two keys for one; it needs more memory per key, so a
round covers fewer keys for the same setting. The bound is on bytes all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ENTRY_BYTES: Final = 150
"""What an entry takes besides the key's own bytes: dict slot, headers of two objects. Measured with a million keys."""


class OffsetMap:
    """Key -> offset, up to latest_offset."""

    __slots__ = ("bytes_max", "latest_offset", "offsets", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.offsets: dict[bytes | None, int] = {}
        """Read by the filter's inner loop; a record without a key is never in it."""
        self.used_bytes = 0
        self.latest_offset = -1
        """All records up to here are in; what lies above is kept whatever it is."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be put. One batch always fits, so that every round makes progress."""
        return self.used_bytes >= self.bytes_max

    def put(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> None:
        """Note records, in their order."""
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
