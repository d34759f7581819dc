"""Configuration of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Timeout of a new member's JoinGroup, since the member cannot send heartbeats before it has an id.

Without it, clients that time out and retry would fill a long rebalance with absent members.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Configuration of the group coordinator. Defaults are those of Kafka 4.3.1; times are in milliseconds."""

    min_session_timeout_ms: int = setting("group.min.session.timeout.ms", default=6_000)
    max_session_timeout_ms: int = setting("group.max.session.timeout.ms", default=1_800_000)
    initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms", default=3_000)
    """How long an empty group waits for more members before its first generation."""
    max_size: int = setting("group.max.size", default=2**31 - 1)
    """Maximum members of one group."""
    memory_bytes_max: int = 32 * 1024 * 1024
    """Memory limit for the state that clients create in all groups by joining; Kafka has no such limit."""
    offset_metadata_bytes_max: int = setting("offset.metadata.max.bytes", default=4_096)
    """Maximum text that a client may attach to an offset, in UTF-16 units as in Kafka."""
    commit_timeout_ms: int = setting("offsets.commit.timeout.ms", default=5_000)
    """How long a client waits for the replicas of its records."""
    offsets_retention_ms: int = setting("offsets.retention.minutes", default=7 * 24 * 60 * 60_000, scale=60_000)
    retention_check_interval_ms: int = setting("offsets.retention.check.interval.ms", default=600_000)
