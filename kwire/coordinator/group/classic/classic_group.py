"""State of one classic group, and its invariants.

                    first member joins                 all joined, or timeout
          Empty ----------------------> PreparingRebalance ----------------> CompletingRebalance
            ^                             |      ^     ^                        |          |
            +-----------------------------+      |     +------------------------+          | the leader's assignment
                 no member is left               |       a member joins or leaves          v is committed
                                                 +---------------------------------------- Stable
                                                        a member joins or leaves
          any state -> Dead: the shard is closed

This module changes state and counters; rebalance, joining, syncing and leaving decide which change applies.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from enum import Enum

from kwire.coordinator.group.classic.member import JoinAnswer, Member, Protocols
from kwire.coordinator.group.records import GroupRecord, group_metadata_record
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_consumer_protocol
from kwire.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """State of a classic group; the values are the names that clients receive."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState
_PREVIOUS: Mapping[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
}
"""Legal transitions: the states from which each state may be entered. A group is Dead after its shard was closed."""


class ClassicGroup:
    """Classic group; changed on the event loop only, by the group coordinator's rules."""

    def __init__(
        self,
        group_id: str,
        *,
        state_timestamp_ms: int | None,
        state: GroupState = GroupState.EMPTY,
        generation_id: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        """Time of the last state change, from which an empty group's offsets expire; None in records of old brokers."""
        self.generation_id = generation_id
        """Increased by one with each completed join phase; never decreases."""
        self.protocol_type = protocol_type
        """Set by the first member; None for a group that has only committed offsets."""
        self.protocol_name = protocol_name
        """Selected when a generation begins; None before."""
        self.leader_id = leader_id
        self.members: dict[str, Member] = {}
        """In the order of joining, so that the selection of a new leader is deterministic."""
        self.static_members: dict[str, str] = {}
        """Member id by group.instance.id, for exactly the static members."""
        self.pending_join: set[str] = set()
        """Member ids sent with MEMBER_ID_REQUIRED whose clients have not rejoined; never members."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.awaiting_join_count = 0
        """Number of members whose JoinGroup waits for its answer."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics to which the members of a consumer group subscribe; None if unknown."""
        self.new_member_added = False
        """True if a member joined during the initial delay, which is then extended."""
        self._supporters: Counter[str] = Counter()
        """Number of members that support each protocol."""

    # --- questions

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id is not None and self.leader_id == member_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return True if a member with these protocols could join this group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name, _ in protocols)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return True if the group reads a topic; a consumer group with unknown topics counts as reading all."""
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Return the member in a request. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if it was replaced."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:  # KIP-345
                logger.info("group %s: %s has the instance id of member %s", self.group_id, holder, member_id)
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int, *, in_transaction: bool = False
    ) -> Member | None:
        """Return the member that commits, or None for a commit from outside of group management.

        Such a commit is allowed while the group is empty. In a transaction, a client that names no member may always
        commit, also during a rebalance.
        """
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return None
        if generation_id < 0 and not member_id and group_instance_id is None:
            if in_transaction:
                return None
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
            # The member knows the new generation but does not have its partitions yet, so it must retry.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    # --- members

    def add(self, member: Member, answer: JoinAnswer | None = None) -> None:
        """Add a member; with an answer, its JoinGroup waits."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocol_names)
        member.awaiting_join = answer
        if answer is not None:
            self.awaiting_join_count += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id; unknown ids are ignored."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract(member.protocol_names)
            if member.awaiting_join is not None:
                self.awaiting_join_count -= 1
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: Member,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        answer: JoinAnswer | None,
    ) -> None:
        """Update a member from its new JoinGroup; with an answer, the JoinGroup waits."""
        self._supporters.subtract(member.protocol_names)
        member.protocols = protocols
        self._supporters.update(member.protocol_names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.awaiting_join_count += (answer is not None) - (member.awaiting_join is not None)
        member.awaiting_join = answer

    def replace_static(self, group_instance_id: str, old_member_id: str, new_member_id: str) -> Member:
        """Replace a static member by a new member id; the old one's waiting requests are fenced (KIP-345)."""
        old = self.members.pop(old_member_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, JoinGroupResponse(error_code=fenced, member_id=old_member_id, protocol_name=None))
        self.answer_sync(old, SyncGroupResponse(error_code=fenced))
        new = Member(
            member_id=new_member_id,
            group_instance_id=group_instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_member_id] = new
        if self.is_leader(old_member_id):
            self.leader_id = new_member_id
        self.static_members[group_instance_id] = new_member_id
        if old_member_id in self.pending_sync:  # the new id must send the SyncGroup that the old one did not send
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)
        return new

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader is a member that joined; return False if no member did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                logger.info("group %s: leader %s did not join in time", self.group_id, self.leader_id)
                self.leader_id = member.member_id
                return True
        return False

    # --- answers

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer a member's JoinGroup, if one waits."""
        answer = member.awaiting_join
        if answer is None:
            return
        member.awaiting_join = None
        self.awaiting_join_count -= 1
        assert self.awaiting_join_count >= 0
        if not answer.done():  # otherwise its client has disconnected
            answer.set_result(response)

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer a member's SyncGroup; return True if one was waiting."""
        answer = member.awaiting_sync
        if answer is None:
            return False
        member.awaiting_sync = None
        if not answer.done():
            answer.set_result(response)
        return True

    def answer_all(self, code: ErrorCode) -> None:
        """Answer every waiting JoinGroup and SyncGroup with this code; the members stay."""
        for member in self.members.values():
            self.answer_join(member, JoinGroupResponse(error_code=code, member_id=member.member_id, protocol_name=None))
            self.answer_sync(member, SyncGroupResponse(error_code=code))

    def close(self, code: ErrorCode) -> None:
        """Answer every waiting request with this code; the group becomes Dead.

        No invariant is asserted, because a broken invariant may be the reason for closing the group.
        """
        self.state = GroupState.DEAD
        for member in self.members.values():
            join, sync = member.awaiting_join, member.awaiting_sync
            if join is not None and not join.done():
                join.set_result(JoinGroupResponse(error_code=code, member_id=member.member_id, protocol_name=None))
            if sync is not None and not sync.done():
                sync.set_result(SyncGroupResponse(error_code=code))

    def join_response(self, member: Member, *, with_members: bool, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return a member's JoinGroup response for the current generation."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=self._listed_members() if with_members else [],
        )

    def _listed_members(self) -> list[JoinGroupResponseMember]:
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_for(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # --- generations

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most prefer; among equals the first one with a vote."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self, now_ms: int) -> None:
        """Finish the join phase: all remaining members have joined, except absent static members."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in _PREVIOUS[state], f"group {self.group_id} cannot go from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms
        self.check_invariants()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                metadata = member.metadata_for(self.protocol_name)
                # Topics come first in every version, so decoding as version 0 reads them whatever follows.
                topics.update(decode_consumer_protocol(ConsumerProtocolSubscription, b"\0\0" + metadata[2:]).topics)
        except ProtocolError as error:
            logger.warning(
                "group %s: subscriptions for %s cannot be read: %s", self.group_id, self.protocol_name, error
            )
            return None
        return frozenset(topics)

    def restore_subscriptions(self) -> None:
        """Restore the subscriptions after the group was created from its record."""
        self.subscribed_topics = self._read_subscriptions()

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
        """Return the group's record, with the members' own assignments unless others are passed."""
        protocol = self.protocol_name
        assert protocol is not None or not self.members, "a group with members has chosen a protocol"
        return group_metadata_record(
            self.group_id,
            protocol_type=self.protocol_type,
            generation=self.generation_id,
            protocol=protocol,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=[
                member.recorded(
                    protocol or "", member.assignment if assignments is None else assignments[member.member_id]
                )
                for member in self.members.values()
            ],
        )

    def check_invariants(self) -> None:
        """Assert that counters and redundant data are consistent."""
        members = self.members
        assert self.awaiting_join_count == sum(member.awaiting_join is not None for member in members.values())
        static = {member.group_instance_id: member.member_id for member in members.values() if member.is_static}
        assert self.static_members == static
        assert not self.pending_join & members.keys()
        assert self.pending_sync <= members.keys()
        assert self.leader_id in members if members else self.leader_id is None
        if self.state is GroupState.EMPTY:
            assert not members, f"group {self.group_id} is empty and has members"
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members, f"group {self.group_id} is {self.state.value} without members"
            assert self.protocol_name is not None
