"""Filters of ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.coordinator.transaction.states import STATE_NAMES
from kwire.coordinator.transaction.transaction import Transaction

KNOWN_STATES = frozenset(STATE_NAMES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFilter:
    """Filter of transactions; empty sets and a negative duration match all."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    """Only transactions that began longer ago.

    As in Kafka, a transactional id in state Empty always matches, because its start time is -1.
    """

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states and STATE_NAMES[transaction.state] not in self.states:
            return False
        return self.longer_than_ms < 0 or now_ms - transaction.start_ms > self.longer_than_ms
