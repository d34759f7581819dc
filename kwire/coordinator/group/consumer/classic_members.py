"""Members of a consumer group that use the classic protocol, during an online migration (KIP-848).

The coordinator computes their assignment as well. To a classic member, each step of its reconciliation is a generation:
Heartbeat returns REBALANCE_IN_PROGRESS, JoinGroup makes the step, and SyncGroup returns the assigned partitions.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple
from uuid import UUID

from kwire.coordinator.group.classic.joining import UNKNOWN_MEMBER_ID, JoinCall
from kwire.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from kwire.coordinator.group.consumer.heartbeats import check_static_member, join_static_member
from kwire.coordinator.group.consumer.member import ConsumerMember, MemberState
from kwire.coordinator.group.consumer.member_updates import MemberUpdate, MemberUpdates
from kwire.coordinator.group.consumer.migration import Migration, classic_metadata, encoded_assignment
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig, MigrationPolicy
from kwire.coordinator.group.consumer.timeouts import ConsumerTimeouts
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_consumer_protocol
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupResponse
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.protocol.uuids import uuid_to_text

logger = logging.getLogger(__name__)

Change = Write[GroupRecord, None]


class OwnedPartitions(NamedTuple):
    """Partitions of one topic that a client owns."""

    topic_id: UUID
    partitions: Collection[int]


class ClassicMembers:
    """Rules of the classic APIs for the consumer groups of one shard."""

    def __init__(
        self,
        environment: GroupEnvironment,
        config: Callable[[], ConsumerGroupConfig],
        updates: MemberUpdates,
        migration: Migration,
        timeouts: ConsumerTimeouts,
    ) -> None:
        self._environment = environment
        self._config = config
        self._updates = updates
        self._migration = migration
        self._timeouts = timeouts

    # --- JoinGroup

    def join(self, group: ConsumerGroup, call: JoinCall, allows_topic: Callable[[str], bool]) -> Change | None:
        """Answer at once, or when the records are committed. Raises KafkaError."""
        request = call.request
        member_id = request.member_id or uuid_to_text(self._environment.random_source.uuid())
        self._check_join(group, call, member_id)
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        if is_unknown and request.group_instance_id is None and call.requires_member_id:
            call.reject(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return None
        subscription = _subscription(call)
        written: list[GroupRecord] = []
        replaced = group.static_member(request.group_instance_id)
        member = self._find_member(group, call, member_id, written)
        downgrades = replaced is not None and self._migration.can_downgrade_with_replaced(group, replaced)
        after = dataclasses.replace(
            member,
            instance_id=request.group_instance_id or member.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topic_names=frozenset(subscription.topics),
            subscribed_topic_regex="",
            client_id=call.client_id,
            client_host=call.client_host,
            classic_metadata=classic_metadata(request.session_timeout_ms, call.protocols),
        )
        update = MemberUpdate(group=group, before=member, after=after, epoch=group.epoch, records=written)
        self._updates.subscribe(update, allows_topic=allows_topic, bumps_unresolved=True)
        owned = self._owned(subscription)
        if downgrades:
            assert replaced is not None
            return self._join_and_downgrade(update, call, replaced, owned)
        target_epoch, target = self._updates.assign(update)
        reconciled = self._updates.reconcile(update, target_epoch, target, owned)
        response = _join_response(reconciled)

        def outcome(error: KafkaError | None) -> None:
            # A group that has become a classic one meanwhile has sessions with the same names.
            if error is None and self._environment.groups.get(group.group_id) is group:
                self._timeouts.joined(group.group_id, member_id)
                self._timeouts.restart_session(group.group_id, reconciled)
                self._timeouts.start_sync(group.group_id, member_id, request.rebalance_timeout_ms)
            _answer_join(call, response, error, request.member_id)

        return Write(answer=None, records=update.records, outcome=outcome)

    def _check_join(self, group: ConsumerGroup, call: JoinCall, member_id: str) -> None:
        if self._config().migration is MigrationPolicy.DISABLED:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled.",
            )
        if len(group.members) >= self._config().max_size and member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        names = [name for name, _ in call.protocols]
        if not group.supports_classic_protocols(call.request.protocol_type, names):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _find_member(
        self, group: ConsumerGroup, call: JoinCall, member_id: str, written: list[GroupRecord]
    ) -> ConsumerMember:
        instance_id = call.request.group_instance_id
        if instance_id is None:
            logger.info("group %s: member %s joins with the classic protocol", group.group_id, member_id)
            return group.members.get(member_id, ConsumerMember(member_id=member_id))
        if call.request.member_id != UNKNOWN_MEMBER_ID:
            return check_static_member(group, instance_id, member_id)
        return join_static_member(group, member_id, instance_id, written, is_classic=True)

    def _join_and_downgrade(
        self, update: MemberUpdate, call: JoinCall, replaced: ConsumerMember, owned: list[OwnedPartitions]
    ) -> Change:
        """Let a classic static member replace the last consumer member: the group becomes a classic one."""
        group = update.group
        rebalances = group.target.epoch < update.epoch
        joining = update.after
        if not rebalances:
            joining = self._updates.reconcile(update, group.target.epoch, group.target_of(update.after), owned)
        reason = "a static member downgrades the group with an outdated assignment" if rebalances else None
        downgrade = self._migration.downgrade(
            group, answer=None, reason=reason, replaced=replaced, joining=joining, written=update.records
        )
        response = _join_response(joining)
        undo = downgrade.outcome

        def outcome(error: KafkaError | None) -> None:
            if undo is not None:
                undo(error)
            _answer_join(call, response, error, call.request.member_id)

        return Write(answer=None, records=downgrade.records, replay=False, outcome=outcome)

    def _owned(self, subscription: ConsumerProtocolSubscription) -> list[OwnedPartitions]:
        topics = self._environment.image().topics
        return [
            OwnedPartitions(topic.topic_id, each.partitions)
            for each in subscription.owned_partitions
            if (topic := topics.get(each.topic)) is not None
        ]

    # --- SyncGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Write[GroupRecord, SyncGroupResponse]:
        """Return the partitions of a member. Raises KafkaError."""
        member = self._find_classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        classic = member.classic_metadata
        assert classic is not None
        name = classic.supported_protocols[0].name
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A member that must still revoke partitions has already rejoined; it finishes that first.
        if group.target.epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timeouts.start_join(group.group_id, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        partitions: dict[UUID, frozenset[int]] = {
            topic_id: frozenset(epochs) for topic_id, epochs in member.assigned_partitions.items()
        }
        metadata = bytes(classic.supported_protocols[0].metadata)
        self._timeouts.synced(group.group_id, member.member_id)
        self._timeouts.restart_session(group.group_id, member)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encoded_assignment(partitions, metadata, self._environment.image()),
        )
        return Write(answer=response)

    # --- Heartbeat

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Return NONE, or REBALANCE_IN_PROGRESS if the member must rejoin. Raises KafkaError."""
        member = self._find_classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._timeouts.restart_session(group.group_id, member)
        if not self._must_rejoin(group, member):
            return ErrorCode.NONE
        self._timeouts.start_join(group.group_id, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _must_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return True if a member must rejoin for a newer target, to revoke partitions, or for released ones."""
        if member.member_epoch < group.target.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_partitions(member)

    def _find_classic_member(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = check_static_member(group, instance_id, member_id)
        if not member.uses_classic_protocol:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        return member

    # --- LeaveGroup

    def leave(self, group: ConsumerGroup, identities: list[MemberIdentity]) -> Write[GroupRecord, LeaveGroupResponse]:
        """Remove members, also those of the consumer protocol that an administrator names."""
        leaving: dict[str, ConsumerMember] = {}
        responses: list[MemberResponse] = []
        for identity in identities:
            response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                member = _leaving_member(group, identity)
                leaving[member.member_id] = member
            except KafkaError as error:
                response.error_code = error.code
            responses.append(response)
        return self._migration.removal(group, list(leaving.values()), LeaveGroupResponse(members=responses))


def _subscription(call: JoinCall) -> ConsumerProtocolSubscription:
    """Return the subscription of a member's first protocol. Raises INCONSISTENT_GROUP_PROTOCOL."""
    try:
        return decode_consumer_protocol(ConsumerProtocolSubscription, call.protocols[0][1])
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Malformed embedded consumer protocol in subscription: {error}"
        ) from None


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic_metadata is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic_metadata.supported_protocols[0].name,
    )


def _answer_join(call: JoinCall, response: JoinGroupResponse, error: KafkaError | None, member_id: str) -> None:
    if call.answer.done():  # the client has disconnected
        return
    if error is None:
        call.answer.set_result(response)
    else:
        call.reject(error.code, member_id)


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation_id} is not equal to the member epoch {member.member_epoch}.",
        )


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the member of an identity. An administrator removes a static member without its member id."""
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    if identity.member_id != UNKNOWN_MEMBER_ID:
        return check_static_member(group, identity.group_instance_id, identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member
