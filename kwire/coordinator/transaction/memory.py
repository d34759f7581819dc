"""What transactional ids may take of memory: anybody may make new ones, and they are kept for a week."""

from __future__ import annotations

from sys import getsizeof

from kwire.coordinator.transaction.transaction import Transaction

TRANSACTION_BYTES = 800
PARTITION_BYTES = 150
"""What there is besides the id; names of topics are the metadata's."""


class TransactionMemory:
    """A bound on all transactional ids of a coordinator."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._counted = 0

    @property
    def has_room(self) -> bool:
        """Whether another transactional id, or more partitions of one, may be let in."""
        return self._counted < self._limit_bytes

    def count(self, before: Transaction | None, after: Transaction | None) -> None:
        """Note that a transaction has taken another's place."""
        self._counted += _weight(after) - _weight(before)
        assert self._counted >= 0


def _weight(transaction: Transaction | None) -> int:
    if transaction is None:
        return 0
    size = TRANSACTION_BYTES + getsizeof(transaction.transactional_id)
    return size + PARTITION_BYTES * len(transaction.partitions)
