"""SyncGroup and Heartbeat for classic groups."""

from __future__ import annotations

import logging

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.member import Member, SyncAnswer
from kwire.coordinator.group.classic.rebalance import Change, Rebalance
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


class Syncing:
    """Decisions about SyncGroup and Heartbeat requests."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup | None, request: SyncGroupRequest, answer: SyncAnswer) -> Change | None:
        """Answer at once, or when the leader's assignment is committed."""
        try:
            member = self._check(group, request)
        except KafkaError as error:
            answer.set_result(SyncGroupResponse(error_code=error.code))
            return None
        assert group is not None
        self._rebalance.received_sync(group, member.member_id)
        if group.state is GroupState.STABLE:
            response = SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
            answer.set_result(response)
            return None
        member.awaiting_sync = answer
        return self._store_assignment(group, request) if group.is_leader(member.member_id) else None

    def _check(self, group: ClassicGroup | None, request: SyncGroupRequest) -> Member:
        if group is None or group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, group.protocol_type):  # KIP-559
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.protocol_name is not None and request.protocol_name not in (None, group.protocol_name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> Change:
        given = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        missing = [member_id for member_id in assignments if member_id not in given]
        if missing:
            logger.warning("group %s: the leader's assignment has no entry for %s", group.group_id, missing)
        generation_id = request.generation_id

        def outcome(error: KafkaError | None) -> None:
            # If a member joined or left before the record was committed, no member waits for this assignment.
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            if error is None:
                self._rebalance.send_assignments(group, assignments)
                return
            self._rebalance.fail_syncs(group, error.code)
            change = self._rebalance.prepare_or_complete(group, f"the assignment could not be written: {error}")
            assert change is None, "a group with members writes nothing when it begins to rebalance"

        return Write(answer=None, records=[group.record(assignments)], replay=False, outcome=outcome)

    def heartbeat(self, group: ClassicGroup | None, request: HeartbeatRequest) -> ErrorCode:
        """Return the error code for a heartbeat.

        NONE and REBALANCE_IN_PROGRESS restart the member's session timeout.
        """
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.restart_session(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE
