"""Timeouts of streams groups: sessions and revocation of members, and the delay of a group's first assignment."""

from __future__ import annotations

import logging

from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.repeated_writes import RETRY_MS, repeated
from kwire.coordinator.group.streams import records
from kwire.coordinator.group.streams.member import MemberState, StreamsMember
from kwire.coordinator.group.streams.settings import StreamsGroupSettings
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.coordinator.shard import Step, Write
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

Change = Write[GroupRecord, None]
TimerName = tuple[str, str, str]
"""Purpose of the timer, group id, and member id."""


class StreamsTimeouts:
    """Timeouts of all streams groups in one shard. A member that exceeds one is fenced, that is, removed."""

    def __init__(self, environment: GroupEnvironment) -> None:
        self._environment = environment

    def restart_session(self, group_id: str, member_id: str) -> None:
        """Restart the session timeout of a member that has sent a heartbeat."""
        timeout_ms = self._environment.configs.of(group_id, StreamsGroupSettings).session_timeout_ms
        self._schedule(("session", group_id, member_id), timeout_ms, "its session has ended", None)

    def follow_revocation(self, group_id: str, member: StreamsMember) -> None:
        """Start the rebalance timeout of a member that must revoke tasks; stop that of any other member."""
        member_id, epoch = member.member_id, member.member_epoch
        if member.state is not MemberState.UNREVOKED_TASKS:
            self._environment.timers.cancel(("revocation", group_id, member_id))
            return
        reason = f"it did not revoke its tasks within {member.rebalance_timeout_ms} ms"
        self._schedule(("revocation", group_id, member_id), member.rebalance_timeout_ms, reason, epoch)

    def cancel(self, group_id: str, member_id: str) -> None:
        """Cancel all timeouts of a member that has left."""
        for name in ("session", "revocation"):
            self._environment.timers.cancel((name, group_id, member_id))

    def _schedule(self, name: TimerName, delay_ms: float, reason: str, epoch: int | None) -> None:
        self._environment.timers.schedule(name, delay_ms, lambda: self._expire(name, reason, epoch))

    def _expire(self, name: TimerName, reason: str, epoch: int | None) -> Change | None:
        """Fence a member; with an epoch, only if it is still at that epoch. A write that fails is repeated."""
        _, group_id, member_id = name
        group = self._environment.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if member is None or epoch not in (None, member.member_epoch):
            return None
        assert isinstance(group, StreamsGroup)
        logger.info("group %s: member %s is fenced, because %s", group_id, member_id, reason)

        def outcome(error: KafkaError | None) -> None:
            if error is None and not self._environment.has_member(group_id, member_id):
                self.cancel(group_id, member_id)

        removal: Change = Write(answer=None, records=records.removal_records(group, member_id), outcome=outcome)
        return repeated(removal, lambda: self._schedule(name, RETRY_MS, reason, epoch))

    # --- first assignment

    def delay_assignment(self, group_id: str, step: Step[GroupRecord]) -> None:
        """Delay the first assignment of an empty group, so that several members can join before it.

        A delay that has begun is not extended.
        """
        delay_ms = self._environment.configs.of(group_id, StreamsGroupSettings).initial_rebalance_delay_ms
        if delay_ms > 0 and not self.is_assignment_delayed(group_id):
            self._environment.timers.schedule(("initial assignment", group_id), delay_ms, step)

    def is_assignment_delayed(self, group_id: str) -> bool:
        return ("initial assignment", group_id) in self._environment.timers

    def cancel_delay(self, group_id: str) -> None:
        """Cancel the delay of a group that is deleted, or that becomes a classic group."""
        self._environment.timers.cancel(("initial assignment", group_id))
