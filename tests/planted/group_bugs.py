"""Bugs of groups: tests/fuzz/group_model.py finds those of classic groups, scripts find those of consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.joining import UNKNOWN_MEMBER_ID, JoinCall, Joining
from kwire.coordinator.group.classic.member import Member
from kwire.coordinator.group.classic.rebalance import Change, Rebalance
from kwire.coordinator.group.consumer import member_updates
from kwire.coordinator.group.consumer.migration import Migration
from kwire.coordinator.group.machine import GroupMachine
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from tests.planted.bug import Catalogue

GROUP_BUGS: Final = Catalogue()
_bug = GROUP_BUGS.bug
_FOUND_BY = "fuzz/test_fuzzers.py::test_the_first_seeds_of_each_fuzzer_pass[group]"


@_bug("G7", _FOUND_BY)
def a_replaced_static_member_owes_its_sync(patch: pytest.MonkeyPatch) -> None:
    """The id of a static member that restarted between JoinGroup and SyncGroup stays in the set of pending syncs."""
    replace_static = ClassicGroup.replace_static

    def forgetful(group: ClassicGroup, instance_id: str, old_id: str, new_id: str) -> Member:
        owes = old_id in group.pending_sync
        new = replace_static(group, instance_id, old_id, new_id)
        if owes:
            group.pending_sync.remove(new_id)
            group.pending_sync.add(old_id)
        return new

    patch.setattr(ClassicGroup, "replace_static", forgetful)


@_bug("G7", _FOUND_BY)
def a_replaced_leader_gets_a_generation_that_is_over(patch: pytest.MonkeyPatch) -> None:
    """A static leader's record commits during the next rebalance; JoinGroup returns the previous generation."""

    def keep(
        joining: Joining, group: ClassicGroup, call: JoinCall, member: Member, leader: str | None, undo: Any
    ) -> Change:
        def outcome(error: KafkaError | None) -> None:
            if error is not None:
                if group.state is GroupState.STABLE:
                    undo()
                if not call.answer.done():
                    call.reject(error.code, UNKNOWN_MEMBER_ID)
                return
            is_leader = call.can_skip_assignment and group.is_leader(member.member_id)
            response = group.join_response(member, with_members=is_leader, skip_assignment=is_leader)
            if not call.can_skip_assignment:
                response.leader = leader or ""
            group.answer_join(member, response)

        return Write(answer=None, records=[group.record()], replay=False, outcome=outcome)

    patch.setattr(Joining, "_keep_generation", keep)


@_bug("G6", _FOUND_BY)
def the_favourite_of_most_is_chosen(patch: pytest.MonkeyPatch) -> None:
    """The protocol that most members prefer is chosen, even if some members do not support it."""

    def select(group: ClassicGroup) -> str:
        return Counter(member.protocols[0][0] for member in group.members.values()).most_common(1)[0][0]

    patch.setattr(ClassicGroup, "select_protocol", select)
    patch.setattr(Member, "metadata_for", lambda member, name: dict(member.protocols).get(name, b""))


@_bug("G7", _FOUND_BY)
def an_instance_id_is_enough(patch: pytest.MonkeyPatch) -> None:
    """A static member is found by its instance id alone: the replaced process is still served."""
    check_member = ClassicGroup.check_member

    def by_instance(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
        return check_member(group, group.static_members.get(instance_id or "", member_id), instance_id)

    patch.setattr(ClassicGroup, "check_member", by_instance)


@_bug("G3", _FOUND_BY)
def an_assignment_outlives_its_generation(patch: pytest.MonkeyPatch) -> None:
    """A member keeps its assignment when the next generation begins."""

    give = Rebalance.send_assignments

    def send_assignments(rebalance: Rebalance, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        members = group.members.values()
        give(rebalance, group, {each.member_id: each.assignment or assignments[each.member_id] for each in members})

    def fail_syncs(rebalance: Rebalance, group: ClassicGroup, code: ErrorCode) -> None:
        for member in group.members.values():
            group.answer_sync(member, SyncGroupResponse(error_code=code))

    patch.setattr(Rebalance, "send_assignments", send_assignments)
    patch.setattr(Rebalance, "fail_syncs", fail_syncs)


@_bug("G6", _FOUND_BY)
def the_sync_of_a_removed_member_is_not_answered(patch: pytest.MonkeyPatch) -> None:
    """LeaveGroup of a member with a waiting SyncGroup request leaves that request without a response."""

    def remove_and_answer(rebalance: Rebalance, group: ClassicGroup, member: Member) -> None:
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None))
        group.remove(member.member_id)

    patch.setattr(Rebalance, "remove_and_answer", remove_and_answer)


@_bug("G6", _FOUND_BY)
def a_member_id_that_is_never_used_never_expires(patch: pytest.MonkeyPatch) -> None:
    """A member id that no client uses never expires."""
    start_session = Rebalance.start_session

    def lenient(rebalance: Rebalance, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        if member_id not in group.pending_join:
            start_session(rebalance, group, member_id, timeout_ms)

    patch.setattr(Rebalance, "start_session", lenient)


@_bug("G6", _FOUND_BY)
def members_are_expected_back_without_a_session(patch: pytest.MonkeyPatch) -> None:
    """A coordinator starts no sessions for loaded groups: members that are gone stay in them."""
    patch.setattr(GroupMachine, "loaded", lambda machine: machine._schedule_expiration())


@_bug("G6", "coordinator/test_scripts.py::test_script[consumer_a_clock_that_is_set_back_delays_no_assignment]")
def a_clock_that_is_set_back_delays_assignments(patch: pytest.MonkeyPatch) -> None:
    """No target assignment is computed before the wall clock has reached the time of the last one again."""

    def is_over(interval_ms: int, *, since_ms: int, now_ms: int) -> bool:
        return interval_ms == 0 or now_ms >= since_ms + interval_ms

    patch.setattr(member_updates, "is_over", is_over)


@_bug("G6", "coordinator/test_scripts.py::test_script[consumer_a_member_whose_leaving_fails_expires]")
def a_member_that_leaves_has_no_session_at_once(patch: pytest.MonkeyPatch) -> None:
    """The session of a member that leaves ends before its removal is stored, which may fail."""
    removal = Migration.removal

    def cancel_first(migration: Migration, group: Any, members: Any, answer: Any) -> Any:
        for member in members:
            migration._timeouts.cancel(group.group_id, member.member_id)
        return removal(migration, group, members, answer)

    patch.setattr(Migration, "removal", cancel_first)
