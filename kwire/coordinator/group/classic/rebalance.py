"""Rebalance of classic groups, from its reason to the answers of all JoinGroups; session timeouts.

A join phase ends when all members have joined, or after the largest rebalance timeout. Members that have not rejoined
by then are removed, except static members, which stay until their session ends (KIP-345). The first generation of an
empty group waits for more members (group.initial.rebalance.delay.ms, KIP-134). Members that do not send SyncGroup in
time are removed as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.member import Member
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Step, Write
from kwire.coordinator.timers import Timers
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.seams import Clock

logger = logging.getLogger(__name__)

STATIC_MEMBER_WAIT_MS_MIN = 1000
"""Minimum wait of a group for absent static members before it checks again, whatever their rebalance timeout."""

Change = Write[GroupRecord, None]
"""Records that a step writes; steps that change only soft state return None."""


class Rebalance:
    """State transitions and timers of groups."""

    def __init__(
        self,
        *,
        groups: Mapping[str, object],
        config: GroupConfig,
        clock: Clock,
        timers: Timers[Step[GroupRecord]],
    ) -> None:
        self._groups = groups
        self._config = config
        self._clock = clock
        self._timers = timers

    # --- the join phase

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Change | None:
        """Start a rebalance, or finish the current join phase if possible."""
        if group.can_rebalance:
            return self.prepare(group, reason)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Change | None:
        """Start a join phase."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._stop_waiting_for_syncs(group)
        is_initial = group.is_empty
        if is_initial:
            delay_ms = self._config.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._at_join_end(group, delay_ms, lambda: self._initial_delay_over(group, delay_ms, remaining_ms))
        group.transition_to(GroupState.PREPARING_REBALANCE, self._clock.wall_ms())
        logger.info(
            "preparing to rebalance group %s, old generation %d: %s", group.group_id, group.generation_id, reason
        )
        if is_initial:
            return None
        if group.have_all_joined:
            return self._complete_join(group)
        self._at_join_end(group, group.rebalance_timeout_ms, lambda: self._complete_join(group))
        return None

    def complete_if_all_joined(self, group: ClassicGroup) -> Change | None:
        """Finish the join phase, unless it is a group's first one, which lasts for its whole delay."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.previous_state is GroupState.EMPTY:
            return None
        return self._complete_join(group) if group.have_all_joined else None

    def _initial_delay_over(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> Change | None:
        if not group.new_member_added or remaining_ms == 0:
            return self._complete_join(group)
        group.new_member_added = False
        next_delay_ms = min(self._config.initial_rebalance_delay_ms, remaining_ms)
        next_remaining_ms = max(remaining_ms - delay_ms, 0)
        self._at_join_end(
            group, next_delay_ms, lambda: self._initial_delay_over(group, next_delay_ms, next_remaining_ms)
        )
        return None

    def _complete_join(self, group: ClassicGroup, *, is_logged: bool = False) -> Change | None:
        self._timers.cancel(("join", group.group_id))
        self._remove_absent(group)
        if not group.elect_joined_leader() and group.members:
            if not is_logged:
                logger.warning("group %s: no member joined in time; waiting for its static members", group.group_id)
            delay_ms = max(group.rebalance_timeout_ms, STATIC_MEMBER_WAIT_MS_MIN)
            self._at_join_end(group, delay_ms, lambda: self._complete_join(group, is_logged=True))
            return None
        group.begin_generation(self._clock.wall_ms())
        if group.is_empty:
            logger.info("group %s with generation %d is now empty", group.group_id, group.generation_id)
            return Write(answer=None, records=[group.record()], replay=False, outcome=_warn_if_failed(group))
        self._answer_joins(group)
        return None

    def _remove_absent(self, group: ClassicGroup) -> None:
        absent = [
            member.member_id
            for member in group.members.values()
            if member.awaiting_join is None and not member.is_static
        ]
        for member_id in absent:
            group.remove(member_id)
            self._timers.cancel(("session", group.group_id, member_id))
        if absent:
            logger.info("group %s: removed members that did not join in time: %s", group.group_id, absent)

    def _answer_joins(self, group: ClassicGroup) -> None:
        logger.info("group %s: generation %d has %d members", group.group_id, group.generation_id, len(group.members))
        for member in group.members.values():
            is_leader = group.is_leader(member.member_id)
            group.answer_join(member, group.join_response(member, with_members=is_leader))
            self.restart_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        generation_id = group.generation_id
        self._at(group, "sync", group.rebalance_timeout_ms, lambda: self._sync_time_over(group, generation_id))

    # --- the sync phase

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.cancel(("sync", group.group_id))

    def send_assignments(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Send every member its assignment; the group becomes stable."""
        assert group.state is GroupState.COMPLETING_REBALANCE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            response = SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            self._answer_sync(group, member, response)
        group.transition_to(GroupState.STABLE, self._clock.wall_ms())

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Clear all assignments, and answer waiting SyncGroups with an error."""
        assert group.state is GroupState.COMPLETING_REBALANCE
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=code))

    def _answer_sync(self, group: ClassicGroup, member: Member, response: SyncGroupResponse) -> None:
        if group.answer_sync(member, response):
            # The session may have expired, without effect, during the wait.
            self.restart_session(group, member)

    def _stop_waiting_for_syncs(self, group: ClassicGroup) -> None:
        group.pending_sync.clear()
        self._timers.cancel(("sync", group.group_id))

    def _sync_time_over(self, group: ClassicGroup, generation_id: int) -> Change | None:
        if generation_id != group.generation_id or not group.pending_sync:
            return None
        assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        late = sorted(group.pending_sync)
        for member_id in late:
            member = group.members.get(member_id)
            if member is None:
                group.remove(member_id)
            else:  # a restarted static member may wait for its JoinGroup
                self.remove_and_answer(group, member)
            self._timers.cancel(("session", group.group_id, member_id))
        return self.prepare(group, f"removing {late}, which did not send SyncGroup in time")

    # --- sessions

    def restart_session(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Restart the session timeout of a member that has sent a request."""
        self.start_session(group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def start_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Start the session timeout of a member, or of an id that was sent to a client.

        If the group has become a consumer group, the timer of this name belongs to that group.
        """
        if self._groups.get(group.group_id) is not group:
            return
        self._timers.schedule(
            ("session", group.group_id, member_id),
            timeout_ms,
            lambda: self._run_if_current(group, lambda: self._session_over(group, member_id)),
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("session", group.group_id, member_id))

    def _session_over(self, group: ClassicGroup, member_id: str) -> Change | None:
        if member_id in group.pending_join:
            logger.info(
                "group %s: member id %s was assigned, but no JoinGroup with it arrived in time",
                group.group_id,
                member_id,
            )
            group.remove(member_id)
            return self._complete_join_after_removal(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return None
        logger.info("group %s: the session of member %s has ended", group.group_id, member_id)
        return self.remove_member(group, member, f"removing member {member_id} on heartbeat expiration")

    def remove_member(self, group: ClassicGroup, member: Member, reason: str) -> Change | None:
        """Remove a member that may be waiting, and rebalance."""
        self.remove_and_answer(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.prepare_or_complete(group, reason)
        return self._complete_join_after_removal(group)

    def remove_and_answer(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member; answer its waiting JoinGroup or SyncGroup so that a live client rejoins."""
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None))
        group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def _complete_join_after_removal(self, group: ClassicGroup) -> Change | None:
        if group.state is GroupState.PREPARING_REBALANCE and group.have_all_joined:
            return self._complete_join(group)
        return None

    # --- timers

    def _at_join_end(self, group: ClassicGroup, delay_ms: int, step: Callable[[], Change | None]) -> None:
        self._at(group, "join", delay_ms, step)

    def _at(self, group: ClassicGroup, name: str, delay_ms: int, step: Callable[[], Change | None]) -> None:
        self._timers.schedule((name, group.group_id), delay_ms, lambda: self._run_if_current(group, step))

    def _run_if_current(self, group: ClassicGroup, step: Callable[[], Change | None]) -> Change | None:
        """Run a step unless its group was deleted or replaced by replay, which makes its timers void."""
        return step() if self._groups.get(group.group_id) is group else None


def _warn_if_failed(group: ClassicGroup) -> Callable[[KafkaError | None], None]:
    def outcome(error: KafkaError | None) -> None:
        if error is not None:
            logger.warning("group %s: the record of the empty group could not be written: %s", group.group_id, error)

    return outcome
