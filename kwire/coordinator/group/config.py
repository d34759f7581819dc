"""Configuration of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Timeout of a new member's JoinGroup, since the member cannot send heartbeats before it has an id.

Without it, clients that time out and retry would fill a long rebalance with absent members.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Configuration of the group coordinator. Defaults are those of Kafka 4.3.1; times are in milliseconds."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members before its first generation."""
    max_size: int = 2**31 - 1
    """group.max.size: most members of one group."""
    memory_bytes_max: int = 32 * 1024 * 1024
    """Memory limit for the state that clients create in all groups by joining; Kafka has no such limit."""
    offset_metadata_bytes_max: int = 4_096
    """offset.metadata.max.bytes: most text that a client may attach to an offset, in UTF-16 units as in Kafka."""
    commit_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: how long a client waits for the replicas of its records."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """offsets.retention.minutes"""
    retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
