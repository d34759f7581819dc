"""Configuration of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Configuration of the transaction coordinator. Defaults are those of Kafka 4.3.1; times are in milliseconds."""

    timeout_max_ms: int = setting("transaction.max.timeout.ms", default=900_000)
    """Longest timeout that a producer may request."""
    write_timeout_ms: int = setting("request.timeout.ms", default=30_000)
    """How long a client waits for the replicas of its records."""
    abort_interval_ms: int = setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", default=10_000)
    expiration_ms: int = setting("transactional.id.expiration.ms", default=7 * 24 * 60 * 60_000)
    """How long an unused transactional id is kept."""
    expiration_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", default=3_600_000
    )
    memory_bytes_max: int = 64 * 1024 * 1024
    """Memory limit for transactional ids, about 70,000 of them; Kafka has no such limit."""
    add_backoff_ms: int = setting("add.partitions.to.txn.retry.backoff.ms", default=20)
    """Pause before adding a partition is retried.

    The retries wait for the end of the producer's previous transaction.
    """
    add_backoff_max_ms: int = setting("add.partitions.to.txn.retry.backoff.max.ms", default=100)
    """How long adding the partition is retried."""
