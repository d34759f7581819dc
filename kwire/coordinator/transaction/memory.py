"""Memory limit for transactional ids: any client may create them, and they are kept for a week."""

from __future__ import annotations

from sys import getsizeof

from kwire.coordinator.transaction.transaction import Transaction

TRANSACTION_BYTES = 800
PARTITION_BYTES = 150
"""Memory besides the id; topic names are shared with the metadata."""


class TransactionMemory:
    """Memory limit for all transactional ids of a coordinator."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._counted = 0

    @property
    def has_room(self) -> bool:
        """True if another transactional id, or more partitions of one, may be added."""
        return self._counted < self._limit_bytes

    def count(self, before: Transaction | None, after: Transaction | None) -> None:
        """Count the replacement of a transaction by another one."""
        self._counted += _weight(after) - _weight(before)
        assert self._counted >= 0


def _weight(transaction: Transaction | None) -> int:
    if transaction is None:
        return 0
    size = TRANSACTION_BYTES + getsizeof(transaction.transactional_id)
    return size + PARTITION_BYTES * len(transaction.partitions)
