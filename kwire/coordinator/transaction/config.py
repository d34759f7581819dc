"""What the transaction coordinator goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Defaults are Kafka 4.3.1's; times are in milliseconds."""

    timeout_max_ms: int = 900_000
    """transaction.max.timeout.ms: the longest timeout that a producer may ask for."""
    write_timeout_ms: int = 30_000
    """request.timeout.ms: how long a client waits for the replicas of what was written for it."""
    abort_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
    expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """transactional.id.expiration.ms: how long a transactional id is kept that nobody uses."""
    expiration_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    memory_bytes_max: int = 64 * 1024 * 1024
    """What transactional ids may take, about 70,000 of them; Kafka has no such bound."""
    add_backoff_ms: int = 20
    """add.partitions.to.txn.retry.backoff.ms: the pause before a partition is added again to a transaction whose
    predecessor is still ending."""
    add_backoff_max_ms: int = 100
    """add.partitions.to.txn.retry.backoff.max.ms: how long that is tried."""
