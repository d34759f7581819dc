"""Memory limit for the state of share partitions: requests choose their number and their batches."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from kwire.coordinator.share.keys import ShareKey

PARTITION_BYTES: Final = 700
"""Memory besides the group id."""
BATCH_BYTES: Final = 180


class ShareMemory:
    """Memory limit for all share partitions of a coordinator."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._partitions = 0
        self._batches = 0
        self._group_id_bytes = 0

    @property
    def has_room(self) -> bool:
        """True if another share partition, or more batches of one, may be added."""
        size = self._partitions * PARTITION_BYTES + self._batches * BATCH_BYTES + self._group_id_bytes
        return size < self._limit_bytes

    def add(self, key: ShareKey) -> None:
        """Count a share partition."""
        self._partitions += 1
        self._group_id_bytes += getsizeof(key.group_id)

    def remove(self, key: ShareKey) -> None:
        """Do not count a share partition any more; its batches are subtracted by count_batches."""
        self._partitions -= 1
        self._group_id_bytes -= getsizeof(key.group_id)
        assert self._partitions >= 0
        assert self._group_id_bytes >= 0

    def count_batches(self, change: int) -> None:
        """Count added batches; a negative number is that of removed ones."""
        self._batches += change
        assert self._batches >= 0
