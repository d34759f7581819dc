"""What the group coordinator goes by."""

from __future__ import annotations

from dataclasses import dataclass

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot send heartbeats before it knows its id; its JoinGroup is given up after this time, so that
clients which time out and try again do not fill a long rebalance with members that are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Defaults are Kafka 4.3.1's; times are in milliseconds."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members before its first generation."""
    max_size: int = 2**31 - 1
    """group.max.size: members of one group."""
    memory_bytes_max: int = 32 * 1024 * 1024
    """What clients may leave behind in all groups by joining; Kafka has no such bound."""
    offset_metadata_bytes_max: int = 4_096
    """offset.metadata.max.bytes: the text that a client may attach to an offset, in UTF-16 units as in Kafka."""
    commit_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: how long a client waits for the replicas of what it wrote."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """offsets.retention.minutes"""
    retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
