"""Migration of groups between the classic and the consumer protocol while they have members (KIP-848).

A classic group becomes a consumer group when the first member of the consumer protocol joins. A consumer group becomes
a classic group when its last such member has left. group.consumer.migration.policy allows either direction or none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar
from uuid import UUID

from kwire.cluster.metadata.image import MetadataImage
from kwire.coordinator.group.classic.classic_group import ClassicGroup, GroupState
from kwire.coordinator.group.classic.member import Member
from kwire.coordinator.group.classic.rebalance import Rebalance
from kwire.coordinator.group.config import GroupConfig
from kwire.coordinator.group.consumer import records
from kwire.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from kwire.coordinator.group.consumer.member import ConsumerMember, PartitionEpochs
from kwire.coordinator.group.consumer.removal import removal_records
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig
from kwire.coordinator.group.consumer.timeouts import ConsumerTimeouts
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.modern.target_assignment import FIRST_EPOCH, Partitions
from kwire.coordinator.group.records import GroupRecord, group_tombstone
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError, ProtocolError
from kwire.protocol.messages.consumer_group_records import (
    ConsumerGroupClassicMemberMetadata,
    ConsumerGroupClassicProtocol,
)
from kwire.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_consumer_protocol,
    encode_consumer_protocol,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Migration:
    """Consumer groups that are created from, or become, classic groups."""

    def __init__(
        self,
        environment: GroupEnvironment,
        config: Callable[[], ConsumerGroupConfig],
        classic_config: GroupConfig,
        rebalance: Rebalance,
        timeouts: ConsumerTimeouts,
    ) -> None:
        self._environment = environment
        self._config = config
        self._classic_config = classic_config
        self._rebalance = rebalance
        self._timeouts = timeouts

    # --- upgrade

    def consumer_group(self, group_id: str, *, joins: bool, written: list[GroupRecord]) -> ConsumerGroup:
        """Return the consumer group for a heartbeat, which a member that joins creates.

        Records that replace a classic group are added to `written`; the classic group stays until they are replayed.
        Raises GROUP_ID_NOT_FOUND.
        """
        group = self._environment.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and joins:
            return ConsumerGroup(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            written.append(group_tombstone(group_id))
            logger.info("group %s: the empty classic group becomes a consumer group", group_id)
            return ConsumerGroup(group_id)
        return self._upgrade(group, written)

    def _upgrade(self, classic: ClassicGroup, written: list[GroupRecord]) -> ConsumerGroup:
        """Return the consumer group that a classic one with members becomes; all of them keep their partitions.

        Its hash of the topics is 0, so that the heartbeat bumps the epoch: the classic group may have been rebalancing,
        or its last assignment may not have all partitions. Kafka stores the present hash.
        """
        self._check_upgrade(classic)
        try:
            members = [_upgraded(member, classic, self._environment.image()) for member in classic.members.values()]
        except ProtocolError as error:
            logger.warning("group %s cannot become a consumer group: %s", classic.group_id, error)
            raise _not_upgraded(classic, "because the embedded consumer protocol is malformed.") from None
        self._check_assigned_once(classic, members)
        classic.answer_all(ErrorCode.REBALANCE_IN_PROGRESS)
        group = ConsumerGroup(classic.group_id)
        group.epoch = max(classic.generation_id, FIRST_EPOCH)
        group.replace_target_metadata(group.epoch, 0)
        for member in members:
            group.put_member(member)
            group.target.put(member.member_id, _without_epochs(member.assigned_partitions))
        written.append(group_tombstone(classic.group_id))
        written += records.group_records(group)
        logger.info("group %s: the classic group becomes a consumer group", classic.group_id)
        return group

    def outcome_of_upgrade(self, group: ConsumerGroup) -> Callable[[KafkaError | None], None] | None:
        """Return the outcome of the write in which a classic group becomes this one; None if there is no such group."""
        classic = self._environment.groups.get(group.group_id)
        if not isinstance(classic, ClassicGroup) or classic.is_empty:
            return None
        for member in group.members.values():
            self._timeouts.restart_session(group.group_id, member)

        def outcome(error: KafkaError | None) -> None:
            if error is not None and self._environment.groups.get(group.group_id) is classic:
                for member in classic.members.values():
                    self._rebalance.restart_session(classic, member)

        return outcome

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if not self._config().migration.allows_upgrade:
            raise _not_upgraded(classic, "because online upgrade is disabled.")
        if not classic.is_consumer_group:
            raise _not_upgraded(classic, "because the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._config().max_size:
            raise _not_upgraded(classic, "because the group size exceeds the consumer group maximum size.")

    def _check_assigned_once(self, classic: ClassicGroup, members: Iterable[ConsumerMember]) -> None:
        """Raise UNKNOWN_SERVER_ERROR, as Kafka does, if the leader has assigned a partition to two members."""
        assigned: set[tuple[UUID, int]] = set()
        for member in members:
            partitions = {(topic, index) for topic, epochs in member.assigned_partitions.items() for index in epochs}
            if not assigned.isdisjoint(partitions):
                topic_id, index = min(assigned & partitions)
                name = self._environment.image().topic_names.get(topic_id)
                why = f"because partition {index} of topic {name} is assigned to two members."
                raise _not_upgraded(classic, why, ErrorCode.UNKNOWN_SERVER_ERROR)
            assigned |= partitions

    # --- removal, with downgrade

    def removal(self, group: ConsumerGroup, members: Collection[ConsumerMember], answer: T) -> Write[GroupRecord, T]:
        """Remove members. If all others are classic members, the group becomes a classic one."""
        if not members:
            return Write(answer=answer)
        if self._can_downgrade_without(group, members):
            return self.downgrade(group, leaving=members, answer=answer, reason="the last consumer member has left")
        written = removal_records(self._environment, group, members)

        def outcome(error: KafkaError | None) -> None:
            for member in members:
                if error is None and not self._environment.has_member(group.group_id, member.member_id):
                    self._timeouts.cancel(group.group_id, member.member_id)

        return Write(answer=answer, records=written, outcome=outcome)

    def _can_downgrade_without(self, group: ConsumerGroup, members: Collection[ConsumerMember]) -> bool:
        remaining = len(group.members) - len(members)
        classic = group.classic_count - sum(member.uses_classic_protocol for member in members)
        return 0 < remaining == classic and self._allows_downgrade(group, remaining)

    def can_downgrade_with_replaced(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Return True if the group has only classic members after a classic one replaces this static member."""
        is_last = group.classic_count == len(group.members) - 1 and not replaced.uses_classic_protocol
        return is_last and self._allows_downgrade(group, len(group.members))

    def _allows_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        if self._config().migration.allows_downgrade and size <= self._classic_config.max_size:
            return True
        logger.info("group %s stays a consumer group: the migration policy or group.max.size", group.group_id)
        return False

    def downgrade(
        self,
        group: ConsumerGroup,
        *,
        answer: T,
        reason: str | None,
        leaving: Collection[ConsumerMember] = (),
        replaced: ConsumerMember | None = None,
        joining: ConsumerMember | None = None,
        written: Collection[GroupRecord] = (),
    ) -> Write[GroupRecord, T]:
        """Let the group become a classic one, which rebalances if a reason is given.

        A static member that is `replaced` by the `joining` one keeps its partitions. `written` are earlier records of
        the same batch. Raises GROUP_ID_NOT_FOUND if the members' subscriptions cannot be read.
        """
        group_id, groups = group.group_id, self._environment.groups
        try:
            classic = self._classic_group(group, leaving, replaced, joining)
        except ProtocolError as error:
            logger.warning("group %s cannot become a classic group: %s", group_id, error)
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group_id}: {error}."
            ) from None
        renamed = None if replaced is None or joining is None else (replaced.member_id, joining.member_id)
        all_records = [*written, *records.group_tombstones(group, renamed), classic.record()]

        def outcome(error: KafkaError | None) -> None:
            if error is not None and groups.get(group_id) is classic:
                logger.warning("group %s could not become a classic group: %s", group_id, error)
                classic.answer_all(error.code)
                groups[group_id] = group
                for member in group.members.values():
                    self._timeouts.restart_session(group_id, member)
                    if not member.uses_classic_protocol:
                        self._timeouts.follow_revocation(group_id, member)

        groups[group_id] = classic
        for member_id in group.members:
            self._timeouts.cancel(group_id, member_id)
        for each in classic.members.values():
            self._rebalance.restart_session(classic, each)
        if reason is not None:
            change = self._rebalance.prepare(classic, reason)
            assert change is None, "a group with members writes nothing when it begins to rebalance"
        logger.info("group %s: the consumer group becomes a classic group", group_id)
        return Write(answer=answer, records=all_records, replay=False, outcome=outcome)

    def _classic_group(
        self,
        group: ConsumerGroup,
        leaving: Collection[ConsumerMember],
        replaced: ConsumerMember | None,
        joining: ConsumerMember | None,
    ) -> ClassicGroup:
        classic = ClassicGroup(
            group.group_id,
            state=GroupState.STABLE,
            generation_id=group.epoch,
            protocol_type=PROTOCOL_TYPE,
            state_timestamp_ms=self._environment.clock.wall_ms(),
        )
        gone = {member.member_id for member in leaving}
        if replaced is not None:
            gone.add(replaced.member_id)
        staying = [member for member in group.members.values() if member.member_id not in gone]
        for member in staying if joining is None else (*staying, joining):
            classic.add(_downgraded(member))
        classic.protocol_name = classic.select_protocol()
        for each in classic.members.values():
            is_joining = joining is not None and each.member_id == joining.member_id
            target_of = replaced.member_id if is_joining and replaced is not None else each.member_id
            metadata = each.metadata_for(classic.protocol_name)
            each.assignment = encoded_assignment(group.target.of(target_of), metadata, self._environment.image())
        classic.restore_subscriptions()
        classic.check_invariants()
        return classic


def _not_upgraded(classic: ClassicGroup, why: str, code: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> KafkaError:
    logger.info("group %s stays a classic group: %s", classic.group_id, why)
    return KafkaError(code, f"Cannot upgrade classic group {classic.group_id} to consumer group {why}")


def _upgraded(member: Member, classic: ClassicGroup, image: MetadataImage) -> ConsumerMember:
    """Return a classic group's member as one of a consumer group. Raises ProtocolError, or GROUP_ID_NOT_FOUND."""
    assigned: PartitionEpochs = {}
    if member.assignment:
        assignment = decode_consumer_protocol(ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise _not_upgraded(
                classic,
                "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade.",
            )
        assigned = _assigned(assignment, classic.generation_id, image)
    # A member that joins a later generation may no longer support the protocol of the current one.
    supported = dict(member.protocols)
    metadata = supported.get(classic.protocol_name or "", member.protocols[0][1])
    subscription = decode_consumer_protocol(ConsumerProtocolSubscription, metadata)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=classic.generation_id,
        previous_member_epoch=classic.generation_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned_partitions=assigned,
        classic_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(assignment: ConsumerProtocolAssignment, generation_id: int, image: MetadataImage) -> PartitionEpochs:
    """Return the partitions of existing topics in an assignment, which may name a topic more than once."""
    assigned: dict[UUID, dict[int, int]] = {}
    for each in assignment.assigned_partitions:
        topic = image.topics.get(each.topic)
        if topic is not None and each.partitions:
            assigned.setdefault(topic.topic_id, {}).update(dict.fromkeys(each.partitions, generation_id))
    return assigned


def classic_metadata(
    session_timeout_ms: int, protocols: Collection[tuple[str, bytes]]
) -> ConsumerGroupClassicMemberMetadata:
    return ConsumerGroupClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ConsumerGroupClassicProtocol(name=name, metadata=data) for name, data in protocols],
    )


def _downgraded(member: ConsumerMember) -> Member:
    classic = member.classic_metadata
    assert classic is not None, f"member {member.member_id} does not use the classic protocol"
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols),
    )


def _without_epochs(partitions: PartitionEpochs) -> Partitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}


def encoded_assignment(partitions: Partitions, metadata: bytes, image: MetadataImage) -> bytes:
    """Return partitions as a classic member's assignment, in the version of its metadata. Raises ProtocolError."""
    if len(metadata) < 2:
        raise ProtocolError("subscription metadata hold no version")
    version = min(int.from_bytes(metadata[:2], signed=True), 3)
    if version < 0:
        raise ProtocolError(f"subscription metadata have no version {version}")
    assigned = [
        AssignmentTopicPartition(topic=name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (name := _topic_name(topic_id, image)) is not None
    ]
    return encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def _topic_name(topic_id: UUID, image: MetadataImage) -> str | None:
    return image.topic_names.get(topic_id)
