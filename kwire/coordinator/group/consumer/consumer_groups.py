"""Consumer groups of one shard: the rules of all their APIs."""

from __future__ import annotations

from collections.abc import Callable

from kwire.coordinator.group.classic.rebalance import Rebalance
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer.classic_members import ClassicMembers
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.heartbeats import Heartbeats
from kwire.coordinator.group.consumer.member import ConsumerMember
from kwire.coordinator.group.consumer.member_updates import MemberUpdates
from kwire.coordinator.group.consumer.migration import Migration
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.consumer.timeouts import Change, ConsumerTimeouts
from kwire.coordinator.group.environment import GroupEnvironment


class ConsumerGroups:
    """Rules of the consumer groups of one shard."""

    def __init__(
        self,
        environment: GroupEnvironment,
        config: Callable[[], ConsumerGroupConfig],
        classic_config: GroupConfig,
        rebalance: Rebalance,
        newest_topics_version: Callable[[], int],
    ) -> None:
        self._timeouts = ConsumerTimeouts(environment, self._fence)
        self._migration = Migration(environment, config, classic_config, rebalance, self._timeouts)
        updates = MemberUpdates(environment, config, self._timeouts, newest_topics_version)
        self.heartbeats = Heartbeats(environment, config, updates, self._migration, self._timeouts)
        self.classic_members = ClassicMembers(environment, config, updates, self._migration, self._timeouts)

    def loaded(self, group: ConsumerGroup) -> None:
        """Start the timeouts of a group's members after its records have been replayed."""
        for member in group.members.values():
            self._timeouts.restart_session(group.group_id, member)
            self._timeouts.follow_revocation(group.group_id, member)

    def _fence(self, group: ConsumerGroup, member: ConsumerMember) -> Change:
        return self._migration.removal(group, [member], None)
