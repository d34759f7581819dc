"""LeaveGroup: members leave at once, several together in an administrator's request (KIP-345)."""

from __future__ import annotations

import logging

from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.joining import REASON_LENGTH_MAX, UNKNOWN_MEMBER_ID
from kwire.coordinator.group.classic.rebalance import Change, Rebalance
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.leave_group import MemberIdentity, MemberResponse

logger = logging.getLogger(__name__)


class Leaving:
    """Decisions about LeaveGroup requests."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def leave(
        self, group: ClassicGroup | None, identities: list[MemberIdentity]
    ) -> tuple[list[MemberResponse], Change | None]:
        """Return the result for each member, and the change from the rebalance that follows."""
        responses = []
        for identity in identities:
            code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._remove_member(group, identity)
            responses.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        left = [response.member_id for response in responses if response.error_code == ErrorCode.NONE]
        if group is None or not left:
            return responses, None
        return responses, self._rebalance_without(group, left)

    def _rebalance_without(self, group: ClassicGroup, left: list[str]) -> Change | None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalance.prepare_or_complete(group, f"members left: {', '.join(left)}")
        return self._rebalance.complete_if_all_joined(group)

    def _remove_member(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        try:
            if member_id == UNKNOWN_MEMBER_ID:
                # An administrator removes a static member without its member id.
                if instance_id is None or instance_id not in group.static_members:
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
                member_id = group.static_members[instance_id]
            if member_id in group.pending_join:
                group.remove(member_id)
            else:
                self._rebalance.remove_and_answer(group, group.check_member(member_id, instance_id))
        except KafkaError as error:
            return error.code
        self._rebalance.end_session(group, member_id)
        reason = (identity.reason or "not provided")[:REASON_LENGTH_MAX]
        logger.info("group %s: member %s leaves; client reason: %s", group.group_id, member_id, reason)
        return ErrorCode.NONE
