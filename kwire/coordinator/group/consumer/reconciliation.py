"""Reconciliation of a consumer group's member: the next step from its assignment to the target assignment (KIP-848).

A member first revokes what it must give up, and then moves to the target's epoch. It receives each new partition when
no other member owns it any more. So a partition never has two owners.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from kwire.coordinator.group.consumer.consumer_group import NO_EPOCH, ConsumerGroup
from kwire.coordinator.group.consumer.member import NO_PARTITIONS, ConsumerMember, MemberState, PartitionEpochs
from kwire.coordinator.group.modern.target_assignment import Partitions
from kwire.protocol.error_codes import ErrorCode, KafkaError

NO_SET: frozenset[int] = frozenset()
NO_EPOCHS: Mapping[int, int] = {}


class Reconciliation:
    """Next step of one member towards a target assignment."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        *,
        target_epoch: int,
        target: Partitions,
        subscribed_topic_ids: Collection[UUID],
        owned: Collection[Any] | None,
    ) -> None:
        """Create the step; `owned` are the (topic_id, partitions) that the client reports, None if it does not."""
        self._group = group
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._subscribed_topic_ids = subscribed_topic_ids
        self._owned = owned

    def next_member(self, *, has_subscription_changed: bool) -> ConsumerMember:
        """Return the member's next state, which may be the current one.

        Raises FENCED_MEMBER_EPOCH for a member in a state of a newer version that still owns partitions.
        """
        member = self._member
        if member.state is MemberState.STABLE:
            if member.member_epoch != self._target_epoch:
                return self._next_assignment(member.member_epoch)
            return self._without_unsubscribed() if has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if not self._owns_any(member.partitions_pending_revocation):
                return self._next_assignment(member.member_epoch)
            return self._without_unsubscribed() if has_subscription_changed else member
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._next_assignment(member.member_epoch)
        if self._owned is None or self._owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                "rejoin.",
            )
        return self._next_assignment(self._target_epoch)

    def _owns_any(self, partitions: PartitionEpochs) -> bool:
        """Return True if the client owns one of these partitions, or does not report what it owns."""
        if self._owned is None:
            return True
        return any(
            index in partitions.get(topic.topic_id, NO_EPOCHS) for topic in self._owned for index in topic.partitions
        )

    def _without_unsubscribed(self) -> ConsumerMember:
        """Return the member without partitions of topics to which it no longer subscribes."""
        member = self._member
        removed = {
            topic_id: epochs
            for topic_id, epochs in member.assigned_partitions.items()
            if topic_id not in self._subscribed_topic_ids
        }
        if not removed:
            return member
        kept = {topic: epochs for topic, epochs in member.assigned_partitions.items() if topic not in removed}
        pending = dict(member.partitions_pending_revocation)
        for topic_id, epochs in removed.items():
            pending[topic_id] = {**pending.get(topic_id, NO_EPOCHS), **epochs}
        if self._owns_any(pending):
            return member.with_assignment(member.member_epoch, kept, pending, MemberState.UNREVOKED_PARTITIONS)
        # The client has already revoked them, so only the assignment shrinks.
        return member.with_assignment(member.member_epoch, kept, member.partitions_pending_revocation, member.state)

    def _next_assignment(self, member_epoch: int) -> ConsumerMember:
        """Return the member after revocation, or else with those of its partitions that are released."""
        member = self._member
        kept: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        added: dict[UUID, list[int]] = {}
        has_unreleased = False
        for topic_id in dict.fromkeys((*self._target, *member.assigned_partitions)):
            target = self._target.get(topic_id, NO_SET) if topic_id in self._subscribed_topic_ids else NO_SET
            current = member.assigned_partitions.get(topic_id, NO_EPOCHS)
            kept_here = {index: epoch for index, epoch in current.items() if index in target}
            if kept_here:
                kept[topic_id] = kept_here
            if len(kept_here) < len(current):
                revoked[topic_id] = {index: epoch for index, epoch in current.items() if index not in target}
            if len(kept_here) < len(target):
                released = [index for index in sorted(target - kept_here.keys()) if self._is_free(topic_id, index)]
                has_unreleased = has_unreleased or len(kept_here) + len(released) < len(target)
                if released:
                    added[topic_id] = released
        if revoked and self._owns_any(revoked):
            return member.with_assignment(member_epoch, kept, revoked, MemberState.UNREVOKED_PARTITIONS)
        for topic_id, indexes in added.items():
            kept.setdefault(topic_id, {}).update(dict.fromkeys(indexes, self._target_epoch))
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return member.with_assignment(self._target_epoch, kept, NO_PARTITIONS, state)

    def _is_free(self, topic_id: UUID, index: int) -> bool:
        """Return True if no other member owns the partition; the member may still have to revoke it itself."""
        return self._group.owner_epoch(
            topic_id, index
        ) == NO_EPOCH or index in self._member.partitions_pending_revocation.get(topic_id, NO_EPOCHS)
