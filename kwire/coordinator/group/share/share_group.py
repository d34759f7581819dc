"""State of one share group (KIP-932): its members, and the partitions whose state exists at the share coordinator.

Unlike in a consumer group, a partition may be assigned to several members, and a member never waits for another one.
Everything here is changed by replay of records only.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from kwire.coordinator.group.modern.target_assignment import NOTHING, Partitions, TargetAssignment
from kwire.coordinator.group.share.partition_states import PartitionStates
from kwire.protocol.error_codes import ErrorCode, KafkaError

GROUP_TYPE = "share"
PROTOCOL_TYPE = "share"
ASSIGNOR = "simple"
LEAVE_EPOCH = -1
NO_TOPICS: frozenset[str] = frozenset()
NO_PARTITIONS: frozenset[int] = frozenset()


class ShareGroupState(Enum):
    """State of a share group; the values are the names that clients receive."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


def _nothing() -> Partitions:
    return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """Member of a share group; immutable, each change makes a new one."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    """Epoch before the last change; accepted because the response with the new one may have been lost."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = NO_TOPICS
    assigned_partitions: Partitions = field(default_factory=_nothing)

    def without_assignment(self) -> ShareMember:
        """Return the member after a tombstone of its assignment."""
        return dataclasses.replace(
            self, member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned_partitions=NOTHING
        )


class ShareGroup:
    """Share group; changed by replay on the event loop."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        """Bumped when a new target assignment is needed; never decreases."""
        self.metadata_hash = 0
        """Hash of the subscribed topics when the epoch was last bumped."""
        self.target = TargetAssignment()
        self.states = PartitionStates()
        """Partitions by the state of their initialization."""
        self._members: dict[str, ShareMember] = {}
        self._topic_subscribers: Counter[str] = Counter()
        self._assigned: tuple[int, dict[UUID, set[int]]] = (0, {})
        """Revision of the target, and the partitions that it assigns to any member."""

    @property
    def members(self) -> Mapping[str, ShareMember]:
        return self._members

    @property
    def is_empty(self) -> bool:
        return not self._members

    @property
    def is_unused(self) -> bool:
        """True if there are no members and no initialized partitions, but some may have a state at the coordinator."""
        return self.is_empty and not (self.states.initialized or self.states.is_empty)

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self._members else ShareGroupState.EMPTY

    @property
    def topic_subscribers(self) -> Counter[str]:
        """Copy of the number of members that subscribe to each topic."""
        return self._topic_subscribers.copy()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._topic_subscribers

    def member(self, member_id: str) -> ShareMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID."""
        member = self._members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def put_member(self, member: ShareMember) -> None:
        """Add a member, or replace its state."""
        self._forget_subscription(self._members.get(member.member_id))
        self._members[member.member_id] = member
        self._topic_subscribers.update(member.subscribed_topic_names)

    def remove_member(self, member_id: str) -> None:
        """Remove a member; an unknown one is ignored."""
        self._forget_subscription(self._members.pop(member_id, None))

    def _forget_subscription(self, member: ShareMember | None) -> None:
        if member is not None:
            self._topic_subscribers.subtract(member.subscribed_topic_names)
            self._topic_subscribers = +self._topic_subscribers

    def needs_assignment(self) -> bool:
        """Return True if partitions that are initialized are not those that are assigned."""
        assigned = self._assigned_partitions()
        return bool(self._members) and any(
            assigned.get(topic_id, NO_PARTITIONS) != topic.partitions
            for topic_id, topic in self.states.initialized.items()
            if topic.name in self._topic_subscribers
        )

    def _assigned_partitions(self) -> Mapping[UUID, AbstractSet[int]]:
        """Return the partitions that any member's target contains."""
        revision, assigned = self._assigned
        if revision != self.target.revision:
            assigned = {}
            for partitions in self.target.by_member.values():
                for topic_id, indexes in partitions.items():
                    assigned.setdefault(topic_id, set()).update(indexes)
            self._assigned = (self.target.revision, assigned)
        return assigned

    def check_invariants(self) -> None:
        """Assert that the count of subscribers agrees with the members."""
        names = Counter(name for member in self._members.values() for name in member.subscribed_topic_names)
        assert self._topic_subscribers == names, f"subscriptions of {self.group_id} are counted wrongly"
        assert self.target.epoch <= self.epoch, f"the target of {self.group_id} is newer than the group"
