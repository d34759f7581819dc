"""Settings of consumer groups: those of the broker, and those that each group may override."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kwire.cluster.configs.settings import setting

_PACKAGE = "org.apache.kafka.coordinator.group.assignor"
ASSIGNOR_CLASSES = {f"{_PACKAGE}.UniformAssignor": "uniform", f"{_PACKAGE}.RangeAssignor": "range"}
"""Names of assignors by the names of Kafka's classes."""


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: which groups may change their protocol while they have members."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """Settings of a broker for all consumer groups."""

    protocols: list[str] = setting("group.coordinator.rebalance.protocols")
    """Enabled group protocols."""
    max_size: int = setting("group.consumer.max.size")
    """Maximum members of one group."""
    assignors: list[str] = setting("group.consumer.assignors")
    """Enabled assignors, by name or by the name of Kafka's class; the first one is the default."""
    regex_refresh_interval_ms: int = setting("group.consumer.regex.refresh.interval.ms")
    migration_policy: str = setting("group.consumer.migration.policy")

    @property
    def assignor_names(self) -> list[str]:
        """Names of the enabled assignors, as clients give them."""
        return [ASSIGNOR_CLASSES.get(each, each) for each in self.assignors]

    @property
    def migration(self) -> MigrationPolicy:
        return MigrationPolicy(self.migration_policy.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Settings of one consumer group; the broker's group.consumer.* settings are their defaults."""

    session_timeout_ms: int = setting("consumer.session.timeout.ms")
    heartbeat_interval_ms: int = setting("consumer.heartbeat.interval.ms")
    assignment_interval_ms: int = setting("consumer.assignment.interval.ms")
    """Minimum time between two target assignments."""
