"""Settings of share groups' membership: those of the broker, and those that each group may override."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    """Settings of a broker for all share groups."""

    max_size: int = setting("group.share.max.size")
    """Maximum members of one group."""
    initialize_retry_interval_ms: int = setting("group.share.initialize.retry.interval.ms")
    """Time after which the initialization of partitions is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """Settings of one share group; the broker's group.share.* settings are their defaults."""

    session_timeout_ms: int = setting("share.session.timeout.ms")
    heartbeat_interval_ms: int = setting("share.heartbeat.interval.ms")
    assignment_interval_ms: int = setting("share.assignment.interval.ms")
    """Minimum time between two target assignments."""
