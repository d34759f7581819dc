"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

A heartbeat may find partitions that the share coordinator has no state of. They are stored as initializing, and the
caller has them initialized; a later heartbeat assigns them.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from kwire.chunks import Pieces, at_once
from kwire.coordinator.group.any_group import share_group
from kwire.coordinator.group.assignors.assignors import assign_share
from kwire.coordinator.group.client import Client
from kwire.coordinator.group.environment import GroupEnvironment
from kwire.coordinator.group.modern.assignor import AssignmentInput, MemberSubscription
from kwire.coordinator.group.modern.background_assignments import BackgroundAssignments, is_large
from kwire.coordinator.group.modern.target_assignment import FIRST_EPOCH, NOTHING, Partitions
from kwire.coordinator.group.records import GroupRecord
from kwire.coordinator.group.repeated_writes import RETRY_MS, repeated
from kwire.coordinator.group.request_checks import check_not_blank, invalid
from kwire.coordinator.group.share import records
from kwire.coordinator.group.share.partition_states import TopicsById
from kwire.coordinator.group.share.settings import ShareGroupConfig, ShareGroupSettings
from kwire.coordinator.group.share.share_group import LEAVE_EPOCH, ShareGroup, ShareMember
from kwire.coordinator.group.wall_time import is_over
from kwire.coordinator.shard import Write
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)

logger = logging.getLogger(__name__)

Change = Write[GroupRecord, None]


class Heartbeat(NamedTuple):
    """Response of a heartbeat, and the partitions that the share coordinator shall initialize."""

    response: ShareGroupHeartbeatResponse
    to_initialize: TopicsById


@dataclass(slots=True, kw_only=True)
class MemberUpdate:
    """Update of one member, and the records of it so far."""

    group: ShareGroup
    before: ShareMember
    after: ShareMember
    epoch: int
    """Group epoch after the update."""
    records: list[GroupRecord] = field(default_factory=list)
    bumps: bool = False
    """True if the group needs a new assignment."""


class ShareHeartbeats:
    """Rules of ShareGroupHeartbeat for the groups of one shard."""

    def __init__(self, environment: GroupEnvironment, config: Callable[[], ShareGroupConfig]) -> None:
        self._environment = environment
        self._config = config
        self._checked: WeakKeyDictionary[ShareGroup, tuple[Mapping[str, Any], int]] = WeakKeyDictionary()
        """The topics whose hash was compared last, and the epoch that followed."""
        self._assignments = BackgroundAssignments(
            environment.timers,
            find=self._find_stored,
            compute=self._compute_stored,
            target_records=self._target_records,
        )

    def heartbeat(self, request: ShareGroupHeartbeatRequest, client: Client) -> Write[GroupRecord, Heartbeat]:
        """Return the records and the response of a heartbeat. Raises KafkaError."""
        _check(request)
        if request.member_epoch == LEAVE_EPOCH:
            group = self._find(request.group_id)
            member = group.member(request.member_id)
            logger.info("group %s: member %s leaves", group.group_id, member.member_id)
            response = ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVE_EPOCH)

            def outcome(error: KafkaError | None) -> None:
                if error is None and not self._environment.has_member(group.group_id, member.member_id):
                    self._environment.timers.cancel(("session", group.group_id, member.member_id))

            return Write(answer=Heartbeat(response, {}), records=self._removal(group, member), outcome=outcome)
        return self._join_or_stay(request, client)

    def restart_session(self, group_id: str, member_id: str) -> None:
        """Restart the session timeout of a member that has sent a request."""
        self._schedule_expiration(
            group_id, member_id, self._environment.configs.of(group_id, ShareGroupSettings).session_timeout_ms
        )

    # --- join and stay

    def _join_or_stay(self, request: ShareGroupHeartbeatRequest, client: Client) -> Write[GroupRecord, Heartbeat]:
        joins = request.member_epoch == 0
        group = self._group_for(request.group_id, joins=joins)
        member = self._member_for(group, request)
        update = MemberUpdate(group=group, before=member, after=_updated(member, request, client), epoch=group.epoch)
        topics = self._subscribe(update)
        target_epoch, target = self._assign(update, topics)
        reconciled = self._reconcile(update, target_epoch, target)
        self.restart_session(group.group_id, request.member_id)
        settings = self._environment.configs.of(group.group_id, ShareGroupSettings)
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        has_changed = member.assigned_partitions != reconciled.assigned_partitions
        if joins or has_changed or request.subscribed_topic_names is not None:
            response.assignment = _assignment(reconciled.assigned_partitions)
        to_initialize = self._initialize(update, topics)
        return Write(answer=Heartbeat(response, to_initialize), records=update.records)

    def _find(self, group_id: str) -> ShareGroup:
        return share_group(self._environment.groups, group_id)

    def _group_for(self, group_id: str, *, joins: bool) -> ShareGroup:
        if group_id in self._environment.groups:
            return self._find(group_id)
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _member_for(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        limit = self._config().max_size
        member = group.members.get(request.member_id)
        if member is None and len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {limit} members.",
            )
        if member is None and request.member_epoch == 0:
            logger.info("group %s: member %s joins", group.group_id, request.member_id)
            return ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        _check_epoch(member, request.member_epoch)
        return member

    def _subscribe(self, update: MemberUpdate) -> set[str]:
        """Store the member's metadata, and bump the group epoch if needed; return the topics of the group."""
        group, before, after = update.group, update.before, update.after
        if after != before:
            update.records.append(records.member_record(group.group_id, after))
            update.bumps = after.subscribed_topic_names != before.subscribed_topic_names
        if group.target.epoch >= group.epoch and group.needs_assignment():
            update.bumps = True
        topics = group.topic_subscribers
        topics.subtract(before.subscribed_topic_names)
        topics.update(after.subscribed_topic_names)
        subscribed = set(+topics)
        if update.bumps or self._is_outdated(group):
            self._bump_epoch_if_needed(update, subscribed)
        return subscribed

    def _is_outdated(self, group: ShareGroup) -> bool:
        checked = self._checked.get(group)
        return checked is None or checked[0] is not self._environment.image().topics or group.epoch < checked[1]

    def _bump_epoch_if_needed(self, update: MemberUpdate, topics: set[str]) -> None:
        group, image = update.group, self._environment.image()
        metadata_hash = self._environment.hashes.of_group(topics, image)
        if update.bumps or metadata_hash != group.metadata_hash:
            update.bumps = True
            update.epoch = group.epoch + 1
            update.records.append(records.epoch_record(group.group_id, update.epoch, metadata_hash))
            logger.info("group %s: the epoch is now %d", group.group_id, update.epoch)
        self._checked[group] = (image.topics, update.epoch)

    # --- assignment

    def _assign(self, update: MemberUpdate, topics: Iterable[str]) -> tuple[int, Partitions]:
        """Compute the target assignment if it is older than the group; return its epoch, and the member's target.

        A large one is computed in the background. Until then the last target holds.
        """
        group, after = update.group, update.after
        if group.target.epoch >= update.epoch or not self._may_compute(group):
            return group.target.epoch, group.target.of(after.member_id)
        if is_large(len(group.members) + 1, topics, self._environment.image().topics):
            self._assignments.begin(group.group_id)
            if group.target.epoch < FIRST_EPOCH:
                # A member at epoch 0 would join again and again, so the group begins with an empty target.
                update.records.append(records.target_metadata_record(group.group_id, FIRST_EPOCH, 0))
                return FIRST_EPOCH, NOTHING
            return group.target.epoch, group.target.of(after.member_id)
        given = self._assignment_input(group, after)
        computed = at_once(assign_share(given))
        update.records += self._target_records(group, update.epoch, given.members, computed)
        return update.epoch, computed.get(after.member_id, NOTHING)

    def _target_records(
        self, group: ShareGroup, epoch: int, member_ids: Iterable[str], computed: Mapping[str, Partitions]
    ) -> list[GroupRecord]:
        before = group.target.by_member
        changed = [
            records.target_record(group.group_id, member_id, computed.get(member_id, NOTHING))
            for member_id in member_ids
            if before.get(member_id) != computed.get(member_id, NOTHING)
        ]
        return [*changed, records.target_metadata_record(group.group_id, epoch, self._environment.clock.wall_ms())]

    def _may_compute(self, group: ShareGroup) -> bool:
        """Return True if the last assignment is old enough (KIP-1263), and none is being computed."""
        if self._assignments.is_running(group.group_id):
            return False
        interval_ms = self._environment.configs.of(group.group_id, ShareGroupSettings).assignment_interval_ms
        return is_over(interval_ms, since_ms=group.target.timestamp_ms, now_ms=self._environment.clock.wall_ms())

    def _assignment_input(self, group: ShareGroup, changed: ShareMember) -> AssignmentInput:
        """Return the input of the assignor for a group with one new or changed member."""
        image = self._environment.image()
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        members: dict[str, MemberSubscription] = {}
        present = {**group.members, changed.member_id: changed}
        subscriptions = {member.subscribed_topic_names for member in present.values()}
        for member in present.values():
            names = member.subscribed_topic_names
            if names not in ids:
                ids[names] = frozenset(image.topics[name].topic_id for name in names if name in image.topics)
            target = group.target.of(member.member_id)
            members[member.member_id] = MemberSubscription(ids[names], target, None, member.rack_id)
        subscribed = {topic_id for topic_ids in ids.values() for topic_id in topic_ids}
        counts = {
            topic_id: len(topic.partitions)
            for topic_id in subscribed
            if (topic := image.topic_by_id(topic_id)) is not None
        }
        return AssignmentInput(
            members=members,
            is_homogeneous=len(subscriptions) <= 1,
            owners=group.target.owners,
            partition_counts=counts,
            topic_names=image.topic_names,
            assignable={topic_id: topic.partitions for topic_id, topic in group.states.initialized.items()},
        )

    # --- assignment in the background

    def _find_stored(self, group_id: str) -> ShareGroup | None:
        group = self._environment.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def _compute_stored(self, group: ShareGroup) -> Pieces[dict[str, Partitions]]:
        """Return the target of each member of a group as it is stored."""
        return assign_share(self._assignment_input(group, next(iter(group.members.values()))))

    # --- reconciliation

    def _reconcile(self, update: MemberUpdate, target_epoch: int, target: Partitions) -> ShareMember:
        """Return the member with its target, as far as it subscribes to the topics."""
        member = update.after
        if not update.bumps and member.member_epoch == target_epoch:
            return member
        topics = self._environment.image().topics
        subscribed = {topics[name].topic_id for name in member.subscribed_topic_names if name in topics}
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
        if member.member_epoch == target_epoch:
            reconciled = dataclasses.replace(member, assigned_partitions=assigned)
        else:
            reconciled = dataclasses.replace(
                member,
                member_epoch=target_epoch,
                previous_member_epoch=member.member_epoch,
                assigned_partitions=assigned,
            )
        if reconciled != member:
            update.records.append(records.assignment_record(update.group.group_id, reconciled))
        return reconciled

    def _initialize(self, update: MemberUpdate, topics: set[str]) -> TopicsById:
        """Store which partitions are being initialized from now on, and return them."""
        group, environment = update.group, self._environment
        image, now_ms = environment.image(), environment.clock.wall_ms()
        missing = group.states.missing(topics, image, now_ms, self._config().initialize_retry_interval_ms)
        if missing:
            states = group.states.with_initializing(missing, image)
            update.records.append(records.states_record(group.group_id, states, states.named_deleting(image)))
        return missing

    # --- leave

    def _schedule_expiration(self, group_id: str, member_id: str, delay_ms: float) -> None:
        self._environment.timers.schedule(
            ("session", group_id, member_id), delay_ms, lambda: self._expire(group_id, member_id)
        )

    def _expire(self, group_id: str, member_id: str) -> Change | None:
        group = self._environment.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return None
        logger.info("group %s: member %s is fenced, because its session has ended", group_id, member_id)
        removal: Change = Write(answer=None, records=self._removal(group, group.members[member_id]))
        return repeated(removal, lambda: self._schedule_expiration(group_id, member_id, RETRY_MS))

    def _removal(self, group: ShareGroup, member: ShareMember) -> list[GroupRecord]:
        """Return the records that remove a member, and bump the group epoch."""
        topics = group.topic_subscribers
        topics.subtract(member.subscribed_topic_names)
        metadata_hash = self._environment.hashes.of_group((+topics).keys(), self._environment.image())
        return [
            *records.member_tombstones(group.group_id, member.member_id),
            records.epoch_record(group.group_id, group.epoch + 1, metadata_hash),
        ]


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Check the fields of a request. Raises INVALID_REQUEST, with Kafka's messages."""
    check_not_blank(request.member_id, "MemberId can't be empty.")
    check_not_blank(request.group_id, "GroupId can't be empty.")
    check_not_blank(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise invalid("MemberEpoch is invalid.")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the client is at the member's epoch, at the one before, or rejoins."""
    if epoch in (0, member.member_epoch):
        return
    if epoch < member.member_epoch and epoch == member.previous_member_epoch:
        return
    size = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
    """Return the member with the fields of a request; None means unchanged."""
    names = request.subscribed_topic_names
    is_unchanged = names is None and request.rack_id is None
    if is_unchanged and member.client_id == client.client_id and member.client_host == client.host:
        return member
    return dataclasses.replace(
        member,
        client_id=client.client_id,
        client_host=client.host,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
    )


def _assignment(partitions: Partitions) -> ShareGroupHeartbeatAssignment:
    return ShareGroupHeartbeatAssignment(
        topic_partitions=[
            ShareGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
        ]
    )
