"""Configuration of the share coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateConfig:
    """Configuration of the share coordinator. Defaults are those of Kafka 4.3.1; times are in milliseconds."""

    updates_per_snapshot: int = setting("share.coordinator.snapshot.update.records.per.snapshot", default=500)
    """Updates of a share partition after which the next write stores a snapshot."""
    write_timeout_ms: int = setting("share.coordinator.write.timeout.ms", default=5_000)
    """How long a client waits for the replicas of its records."""
    prune_interval_ms: int = setting("share.coordinator.state.topic.prune.interval.ms", default=300_000)
    cold_snapshot_interval_ms: int = setting("share.coordinator.cold.partition.snapshot.interval.ms", default=300_000)
    """Age of a snapshot after which it is written again, so that older records can be deleted."""
    memory_bytes_max: int = 128 * 1024 * 1024
    """Memory limit for the state of all share partitions; Kafka has no such limit."""
