"""Configuration of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Configuration of the transaction coordinator. Defaults are those of Kafka 4.3.1; times are in milliseconds."""

    timeout_max_ms: int = 900_000
    """transaction.max.timeout.ms: the longest timeout that a producer may request."""
    write_timeout_ms: int = 30_000
    """request.timeout.ms: how long a client waits for the replicas of its records."""
    abort_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
    expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """transactional.id.expiration.ms: how long an unused transactional id is kept."""
    expiration_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    memory_bytes_max: int = 64 * 1024 * 1024
    """Memory limit for transactional ids, about 70,000 of them; Kafka has no such limit."""
    add_backoff_ms: int = 20
    """add.partitions.to.txn.retry.backoff.ms: pause before adding a partition is retried.

    The retries wait for the end of the producer's previous transaction.
    """
    add_backoff_max_ms: int = 100
    """add.partitions.to.txn.retry.backoff.max.ms: how long adding the partition is retried."""
