"""Timeouts of a consumer group's members: sessions, revocation, and those of classic members."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember, MemberState
from kwire.coordinator.group.consumer.settings import ConsumerGroupSettings
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.repeated_writes import RETRY_MS, repeated
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

Change = Write[GroupRecord, None]
TimerName = tuple[str, str, str]
"""Kind of the timeout, group id, member id."""
Fence = Callable[[ConsumerGroup, ConsumerMember], Change]
"""Function that returns the removal of a member. Raises GROUP_ID_NOT_FOUND if the group cannot become a classic one."""


class ConsumerTimeouts:
    """Timeouts of all consumer groups in one shard. A member that exceeds one is fenced, that is, removed."""

    def __init__(self, environment: GroupEnvironment, fence: Fence) -> None:
        self._environment = environment
        self._fence = fence

    def restart_session(self, group_id: str, member: ConsumerMember) -> None:
        """Restart the session timeout of a member that has sent a request."""
        if member.classic_metadata is not None:
            timeout_ms = member.classic_metadata.session_timeout_ms
        else:
            timeout_ms = self._environment.configs.of(group_id, ConsumerGroupSettings).session_timeout_ms
        self._start("session", group_id, member.member_id, timeout_ms, "its session has ended")

    def follow_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a member that must revoke partitions; stop that of any other member."""
        member_id, epoch = member.member_id, member.member_epoch
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._environment.timers.cancel(("revocation", group_id, member_id))
            return
        reason = f"it did not revoke its partitions within {member.rebalance_timeout_ms} ms"
        self._schedule(("revocation", group_id, member_id), member.rebalance_timeout_ms, reason, epoch)

    def start_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the timeout of a classic member that must rejoin, unless it is running."""
        if ("rejoin", group_id, member.member_id) not in self._environment.timers:
            self._start("rejoin", group_id, member.member_id, member.rebalance_timeout_ms, "it did not rejoin in time")

    def start_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the timeout of a classic member that must send SyncGroup."""
        self._start("consumer sync", group_id, member_id, timeout_ms, "it did not send SyncGroup in time")

    def joined(self, group_id: str, member_id: str) -> None:
        self._environment.timers.cancel(("rejoin", group_id, member_id))

    def synced(self, group_id: str, member_id: str) -> None:
        self._environment.timers.cancel(("consumer sync", group_id, member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        """Cancel all timeouts of a member that has left."""
        for name in ("session", "revocation", "rejoin", "consumer sync"):
            self._environment.timers.cancel((name, group_id, member_id))

    def _start(self, name: str, group_id: str, member_id: str, timeout_ms: float, reason: str) -> None:
        self._schedule((name, group_id, member_id), timeout_ms, reason, None)

    def _schedule(self, name: TimerName, delay_ms: float, reason: str, epoch: int | None) -> None:
        self._environment.timers.schedule(name, delay_ms, lambda: self._expire(name, reason, epoch))

    def _expire(self, name: TimerName, reason: str, epoch: int | None) -> Change | None:
        """Fence a member; with an epoch, only if it is still at that epoch. A removal that fails is repeated."""
        _, group_id, member_id = name
        group = self._environment.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or epoch not in (None, member.member_epoch):
            return None
        assert isinstance(group, ConsumerGroup)
        logger.info("group %s: member %s is fenced, because %s", group_id, member_id, reason)
        try:
            removal = self._fence(group, member)
        except KafkaError as error:  # the group cannot become a classic one
            logger.warning("group %s: member %s is not fenced yet: %s", group_id, member_id, error)
            self._schedule(name, RETRY_MS, reason, epoch)
            return None
        return repeated(removal, lambda: self._schedule(name, RETRY_MS, reason, epoch))
