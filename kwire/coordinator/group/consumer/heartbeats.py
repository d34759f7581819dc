"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group (KIP-848)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from kwire.coordinator.group.any_group import consumer_group
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.consumer import records
from kwire.coordinator.group.consumer.consumer_group import ConsumerGroup
from kwire.coordinator.group.consumer.heartbeat_checks import check_heartbeat
from kwire.coordinator.group.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember, PartitionEpochs
from kwire.coordinator.group.consumer.member_updates import MemberUpdate, MemberUpdates
from kwire.coordinator.group.consumer.migration import Migration
from kwire.coordinator.group.consumer.settings import ConsumerGroupConfig, ConsumerGroupSettings
from kwire.coordinator.group.consumer.timeouts import ConsumerTimeouts
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.uuids import uuid_to_text

logger = logging.getLogger(__name__)

HeartbeatWrite = Write[GroupRecord, ConsumerGroupHeartbeatResponse]


class Heartbeats:
    """Rules of ConsumerGroupHeartbeat for the groups of one shard."""

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

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, client: Client, version: int) -> HeartbeatWrite:
        """Return the records and the response of a heartbeat. Raises KafkaError."""
        check_heartbeat(request, version, self._config().assignor_names)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request)
        return self._join_or_stay(request, client)

    # --- join and stay

    def _join_or_stay(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> HeartbeatWrite:
        joins = request.member_epoch == 0
        written: list[GroupRecord] = []
        group = self._migration.consumer_group(request.group_id, joins=joins, written=written)
        self._check_size(group, request.member_id)
        member_id = request.member_id or uuid_to_text(self._environment.random_source.uuid())
        member = self._find_member(group, request, member_id, written)
        update = MemberUpdate(
            group=group, before=member, after=_updated(member, request, client), epoch=group.epoch, records=written
        )
        self._updates.subscribe(update, allows_topic=client.allows_topic)
        target_epoch, target = self._updates.assign(update)
        reconciled = self._updates.reconcile(update, target_epoch, target, request.topic_partitions)
        self._timeouts.restart_session(group.group_id, reconciled)
        settings = self._environment.configs.of(group.group_id, ConsumerGroupSettings)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        has_changed = update.after.assigned_partitions != reconciled.assigned_partitions
        if joins or has_changed or _is_full(request):
            response.assignment = _assignment(reconciled.assigned_partitions)
        return Write(answer=response, records=update.records, outcome=self._migration.outcome_of_upgrade(group))

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._config().max_size
        if len(group.members) >= limit and (not member_id or member_id not in group.members):
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _find_member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        written: list[GroupRecord],
    ) -> ConsumerMember:
        joins = request.member_epoch == 0
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if not joins:
                    group.member(member_id)  # raises
                logger.info("group %s: member %s joins", group.group_id, member_id)
                return ConsumerMember(member_id=member_id)
            check_epoch(member, request.member_epoch, request.topic_partitions)
            return member
        if not joins:
            present = check_static_member(group, request.instance_id, member_id)
            check_epoch(present, request.member_epoch, request.topic_partitions)
            return present
        return join_static_member(group, member_id, request.instance_id, written, is_classic=False)

    # --- leave

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> HeartbeatWrite:
        group = consumer_group(self._environment.groups, request.group_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = check_static_member(group, request.instance_id, request.member_id)
            if request.member_epoch == LEAVE_STATIC_EPOCH:
                logger.info("group %s: static member %s leaves for now", group.group_id, member.member_id)
                return Write(
                    answer=response,
                    records=[records.assignment_record(group.group_id, member.as_departed_static())],
                )
        logger.info("group %s: member %s leaves", group.group_id, member.member_id)
        return self._migration.removal(group, [member], response)


# --- checks that classic members share


def check_static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the static member of a request. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if it was replaced."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        logger.info("group %s: %s has the instance id of member %s", group.group_id, member.member_id, member_id)
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def join_static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, written: list[GroupRecord], *, is_classic: bool
) -> ConsumerMember:
    """Return a static member that joins; it replaces the previous one of its instance id.

    Raises UNRELEASED_INSTANCE_ID if both use the consumer protocol and the previous one has not left.
    """
    present = group.static_member(instance_id)
    if present is None:
        logger.info("group %s: static member %s joins as %s", group.group_id, instance_id, member_id)
        return ConsumerMember(member_id=member_id) if member_id not in group.members else group.members[member_id]
    if not is_classic and not present.uses_classic_protocol and present.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {present.member_id} member.",
        )
    logger.info("group %s: static member %s is replaced by %s", group.group_id, present.member_id, member_id)
    new = present.replaced_by(member_id)
    written += records.member_tombstones(group.group_id, present.member_id)
    written.append(records.member_record(group.group_id, new))
    written.append(records.target_record(group.group_id, member_id, group.target.of(present.member_id)))
    written.append(records.assignment_record(group.group_id, new))
    return new


def check_epoch(member: ConsumerMember, epoch: int, owned: Sequence[Any] | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the client is at the member's epoch, or at the one before.

    The previous epoch is accepted if the client owns nothing that the member has lost: it missed a response.
    """
    if epoch in (0, member.member_epoch):
        return
    if epoch > member.member_epoch:
        raise _fenced(member, epoch, "greater")
    if epoch != member.previous_member_epoch or not _owns_only_assigned(owned, member.assigned_partitions):
        raise _fenced(member, epoch, "smaller")


def _fenced(member: ConsumerMember, epoch: int, size: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _owns_only_assigned(owned: Collection[Any] | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        topic.topic_id in assigned and all(index in assigned[topic.topic_id] for index in topic.partitions)
        for topic in owned
    )


# --- fields of the request and of the response


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """Return the member with the fields of a request; None and -1 mean unchanged."""
    changes: dict[str, Any] = {}
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        changes["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["subscribed_topic_regex"] = request.subscribed_topic_regex
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if (
        not changes
        and member.client_id == client.client_id
        and member.client_host == client.host
        and member.classic_metadata is None
    ):
        return member
    return dataclasses.replace(
        member, client_id=client.client_id, client_host=client.host, classic_metadata=None, **changes
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return True if the request has all fields, with which a client asks for its whole assignment."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None


def _assignment(partitions: PartitionEpochs) -> ConsumerGroupHeartbeatAssignment:
    return ConsumerGroupHeartbeatAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=list(epochs))
            for topic_id, epochs in partitions.items()
        ]
    )
