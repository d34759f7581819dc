"""Settings of share groups, as the leaders of their partitions use them."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.configs.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """Settings of one share group, from its own configuration and the defaults of the broker."""

    lock_duration_ms: int = setting("share.record.lock.duration.ms")
    delivery_limit: int = setting("share.delivery.count.limit")
    record_locks_max: int = setting("share.partition.max.record.locks")
    offset_reset: str = setting("share.auto.offset.reset")
    isolation_level: str = setting("share.isolation.level")
    renews_locks: bool = setting("share.renew.acknowledge.enable")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSessionSettings:
    """Limit of the share sessions of a broker."""

    sessions_max: int = setting("group.share.max.share.sessions")
