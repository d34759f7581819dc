"""JoinGroup: rules for members that join a classic group.

A dynamic member without an id receives one and must rejoin with it (MEMBER_ID_REQUIRED, KIP-394). Clients that time out
and retry thus leave no members behind. A static member without an id replaces the previous one with its
group.instance.id. In a stable group this needs no rebalance as long as the selected protocol stays (KIP-345, KIP-814).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.member import JoinAnswer, Member, Protocols, protocols_of
from kwire.coordinator.group.classic.rebalance import Change, Rebalance
from kwire.coordinator.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from kwire.coordinator.group.records import GroupRecord, group_metadata_record
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.seams import Clock, RandomSource

logger = logging.getLogger(__name__)

UNKNOWN_MEMBER_ID = ""
REASON_LENGTH_MAX = 255
"""Characters of a client's reason that are logged (KIP-800)."""
MEMBER_NAME_CHARACTERS_MAX = 8000
"""Characters of a client or instance id in a member id, which must fit into a string of 32767 bytes."""


@dataclass(slots=True, kw_only=True)
class JoinCall:
    """JoinGroup request with its answer."""

    request: JoinGroupRequest
    client_id: str
    client_host: str
    requires_member_id: bool
    """True since version 4 (KIP-394)."""
    can_skip_assignment: bool
    """True since version 9 (KIP-814)."""
    answer: JoinAnswer

    def reject(self, code: ErrorCode, member_id: str) -> None:
        self.answer.set_result(rejected_join(code, member_id))

    @property
    def protocols(self) -> Protocols:
        return protocols_of(self.request.protocols)

    @property
    def reason(self) -> str:
        return (self.request.reason or "not provided")[:REASON_LENGTH_MAX]


def rejected_join(code: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


class Joining:
    """Decisions about JoinGroup requests."""

    def __init__(
        self,
        *,
        groups: MutableMapping[str, Any],
        config: GroupConfig,
        clock: Clock,
        random_source: RandomSource,
        rebalance: Rebalance,
    ) -> None:
        self._groups = groups
        self._config = config
        self._clock = clock
        self._random_source = random_source
        self._rebalance = rebalance

    def join(self, call: JoinCall) -> Change | None:
        """Answer at once, or store the pending answer in the member."""
        request = call.request
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                call.reject(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
                return None
            return self.join_new_group(call)
        return self._join(group, call)

    def join_new_group(self, call: JoinCall, tombstones: Sequence[GroupRecord] = ()) -> Change:
        """Create a group, and write it before it has members, which reserves its id.

        The tombstones are those of an empty group of another kind, whose place it takes.
        """
        group_id = call.request.group_id
        now_ms = self._clock.wall_ms()
        replaced = self._groups.get(group_id)
        group = self._groups[group_id] = ClassicGroup(group_id, state_timestamp_ms=now_ms)
        change = self._join(group, call)
        assert change is None, "the first join of a group writes nothing itself"

        def outcome(error: KafkaError | None) -> None:
            if error is None:
                return
            logger.warning("group %s could not be written: %s", group_id, error)
            if not call.answer.done():
                call.reject(error.code, UNKNOWN_MEMBER_ID)
            if self._groups.get(group_id) is group:
                del self._groups[group_id]
                if replaced is not None:
                    self._groups[group_id] = replaced

        record = group_metadata_record(group_id, state_timestamp_ms=now_ms)
        return Write(answer=None, records=[*tombstones, record], replay=False, outcome=outcome)

    def _join(self, group: ClassicGroup, call: JoinCall) -> Change | None:
        member_id = call.request.member_id
        rejection = self._rejection_code(group, call)
        if rejection is ErrorCode.GROUP_MAX_SIZE_REACHED:
            group.remove(member_id)
            call.reject(rejection, UNKNOWN_MEMBER_ID)
            return None
        if rejection is not None:
            call.reject(rejection, member_id)
            return None
        if member_id == UNKNOWN_MEMBER_ID:
            return self._join_new_member(group, call)
        if member_id in group.pending_join:
            if call.request.group_instance_id is not None:
                # Only ids of dynamic members are pending, so this id belongs to another client.
                call.reject(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
                return None
            return self._add(group, call, member_id)
        return self._rejoin(group, call)

    def _rejection_code(self, group: ClassicGroup, call: JoinCall) -> ErrorCode | None:
        request = call.request
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self._is_below_size_limit(group, request.member_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not group.supports(request.protocol_type, call.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _is_below_size_limit(self, group: ClassicGroup, member_id: str) -> bool:
        """Return True if the group is below its size limit.

        The limit may have been lowered: while members rejoin, the first ones are kept.
        """
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < self._config.max_size
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < self._config.max_size
        return True

    # --- new members

    def _join_new_member(self, group: ClassicGroup, call: JoinCall) -> Change | None:
        instance_id = call.request.group_instance_id
        name = call.client_id if instance_id is None else instance_id
        member_id = f"{name[:MEMBER_NAME_CHARACTERS_MAX]}-{self._random_source.uuid()}"
        if instance_id is not None:
            current_id = group.static_members.get(instance_id)
            if current_id is not None:
                return self._replace_static(group, call, current_id, member_id)
        elif call.requires_member_id:
            group.pending_join.add(member_id)
            self._rebalance.start_session(group, member_id, call.request.session_timeout_ms)
            call.reject(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return None
        return self._add(group, call, member_id)

    def _add(self, group: ClassicGroup, call: JoinCall, member_id: str) -> Change | None:
        request = call.request
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=call.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, call.answer)
        self._rebalance.restart_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalance.prepare_or_complete(group, f"adding member {member_id}; client reason: {call.reason}")

    # --- a static member that rejoins without its id

    def _replace_static(self, group: ClassicGroup, call: JoinCall, old_id: str, new_id: str) -> Change | None:
        instance_id = call.request.group_instance_id
        assert instance_id is not None
        logger.info(
            "group %s: static member %s in place of %s, in state %s", group.group_id, new_id, old_id, group.state.value
        )
        leader_before = group.leader_id
        member = group.replace_static(instance_id, old_id, new_id)
        self._rebalance.end_session(group, old_id)
        self._rebalance.restart_session(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(group, call, member)
        if group.state is GroupState.STABLE:
            if group.select_protocol() == group.protocol_name:
                undo = self._undo_replacement(group, member, old_id, before)
                return self._keep_generation(group, call, member, leader_before, undo)
            return self._rebalance.prepare_or_complete(group, f"static member {new_id} changes the chosen protocol")
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be computing an assignment for the old id, which the new one would never receive.
            return self._rebalance.prepare(group, f"static member {new_id} joined; client reason: {call.reason}")
        return self._rebalance.complete_if_all_joined(group)

    def _keep_generation(
        self, group: ClassicGroup, call: JoinCall, member: Member, leader_before: str | None, undo: Callable[[], None]
    ) -> Change:
        """Write the new id; then answer with the current generation.

        If a rebalance has begun meanwhile, its join phase answers the JoinGroup instead, because the other members may
        not support the old generation's protocol.
        """
        generation_id = group.generation_id

        def outcome(error: KafkaError | None) -> None:
            if error is not None:
                logger.warning("group %s: member %s could not be written: %s", group.group_id, member.member_id, error)
                if group.state is GroupState.STABLE:  # else the shard is closed, and much may have changed
                    undo()
                if not call.answer.done():
                    call.reject(error.code, UNKNOWN_MEMBER_ID)
                return
            if group.state is not GroupState.STABLE or group.generation_id != generation_id:
                return
            is_leader = call.can_skip_assignment and group.is_leader(member.member_id)
            response = group.join_response(member, with_members=is_leader, skip_assignment=is_leader)
            if not call.can_skip_assignment:
                # With its old id as leader, the client does not compute an assignment that would be ignored.
                response.leader = leader_before or ""
            group.answer_join(member, response)
            self._rebalance.restart_session(group, member)  # it may have expired, without effect, during the wait

        return Write(answer=None, records=[group.record()], replay=False, outcome=outcome)

    def _undo_replacement(
        self, group: ClassicGroup, member: Member, old_id: str, before: tuple[Protocols, int, int]
    ) -> Callable[[], None]:
        instance_id = member.group_instance_id
        assert instance_id is not None

        def undo() -> None:
            protocols, rebalance_timeout_ms, session_timeout_ms = before
            group.update(
                member,
                protocols=protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
                answer=None,
            )
            old = group.replace_static(instance_id, member.member_id, old_id)
            self._rebalance.end_session(group, member.member_id)
            self._rebalance.restart_session(group, old)

        return undo

    # --- a member that rejoins with its id

    def _rejoin(self, group: ClassicGroup, call: JoinCall) -> Change | None:
        request = call.request
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            call.reject(error.code, request.member_id)
            return None
        if group.state is GroupState.EMPTY:
            call.reject(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return None
        if self._has_current_generation(group, member, call.protocols):
            with_members = group.state is GroupState.COMPLETING_REBALANCE and group.is_leader(member.member_id)
            call.answer.set_result(group.join_response(member, with_members=with_members))
            return None
        self._update(group, call, member)
        return self._rebalance.prepare_or_complete(
            group, f"member {member.member_id} joins in state {group.state.value}; client reason: {call.reason}"
        )

    def _has_current_generation(self, group: ClassicGroup, member: Member, protocols: Protocols) -> bool:
        """Return True if an unchanged member only lost its answer. A leader may need a new assignment."""
        if group.state is GroupState.PREPARING_REBALANCE or protocols != member.protocols:
            return False
        return group.state is GroupState.COMPLETING_REBALANCE or not group.is_leader(member.member_id)

    def _update(self, group: ClassicGroup, call: JoinCall, member: Member) -> None:
        group.update(
            member,
            protocols=call.protocols,
            rebalance_timeout_ms=call.request.rebalance_timeout_ms,
            session_timeout_ms=call.request.session_timeout_ms,
            answer=call.answer,
        )
