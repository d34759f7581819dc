"""Settings of streams groups: those of the broker, and those that each group may override."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupConfig:
    """Settings of a broker for all streams groups."""

    protocols: list[str] = setting("group.coordinator.rebalance.protocols")
    """Enabled group protocols."""
    max_size: int = setting("group.streams.max.size")
    """Maximum members of one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupSettings:
    """Settings of one streams group; the broker's group.streams.* settings are their defaults."""

    session_timeout_ms: int = setting("streams.session.timeout.ms")
    heartbeat_interval_ms: int = setting("streams.heartbeat.interval.ms")
    standby_replicas: int = setting("streams.num.standby.replicas")
    """Number of standby tasks for each stateful task."""
    initial_rebalance_delay_ms: int = setting("streams.initial.rebalance.delay.ms")
    """How long an empty group waits for more members before its first assignment."""
    assignment_interval_ms: int = setting("streams.assignment.interval.ms")
    """Minimum time between two target assignments."""
