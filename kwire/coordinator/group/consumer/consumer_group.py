"""State of one consumer group (KIP-848), and its invariants.

            first member joins            target assignment computed          all members reconciled
    Empty ---------------------> Assigning -------------------------> Reconciling --------------> Stable
      ^                            ^   ^                                   |                        |
      |  no member is left         |   +-----------------------------------+------------------------+
      +-- any state                |        the group epoch is bumped: members, subscriptions or topics change

The state follows from the members and the epochs. Everything here is changed by replay of records only; heartbeat,
reconciliation and migration decide which records are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from kwire.coordinator.group.consumer.member import ConsumerMember, MemberState, PartitionEpochs
from kwire.coordinator.group.modern.target_assignment import Partitions, TargetAssignment
from kwire.protocol.error_codes import ErrorCode, KafkaError

GROUP_TYPE = "consumer"
PROTOCOL_TYPE = "consumer"
NO_EPOCH = -1


class ConsumerGroupState(Enum):
    """State of a consumer group; the values are the names that clients receive."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """Topics that a regular expression matched."""

    topics: frozenset[str]
    version: int
    """Offset of the metadata image that was searched."""
    timestamp_ms: int
    """Wall-clock time of the search."""


class ConsumerGroup:
    """Consumer group; changed by replay on the event loop."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        """Bumped when a new target assignment is needed; never decreases."""
        self.metadata_hash = 0
        """Hash of the subscribed topics when the epoch was last bumped (metadata_hash.py)."""
        self.target = TargetAssignment()
        self.has_old_metadata_record = False
        """True if the log has a ConsumerGroupPartitionMetadata record, which Kafka wrote before 4.1."""
        self._members: dict[str, ConsumerMember] = {}
        self._static_members: dict[str, str] = {}
        self._topic_subscribers: Counter[str] = Counter()
        """Number of members that subscribe to a topic by name."""
        self._regex_matches: Counter[str] = Counter()
        """Number of resolved regular expressions that match a topic."""
        self._regex_subscribers: Counter[str] = Counter()
        self._resolved: dict[str, ResolvedRegex] = {}
        self._assignors: Counter[str] = Counter()
        self._classic_protocols: Counter[str] = Counter()
        """Number of classic members that support a protocol."""
        self._classic_count = 0
        self._owner_epochs: dict[UUID, dict[int, int]] = {}
        """Epoch of the member that owns a partition, or must still revoke it."""
        self._reconciled_count = 0
        """Number of members that are reconciled to the target assignment's epoch."""

    # --- members

    @property
    def members(self) -> Mapping[str, ConsumerMember]:
        return self._members

    @property
    def static_members(self) -> Mapping[str, str]:
        """Member id by group.instance.id."""
        return self._static_members

    @property
    def is_empty(self) -> bool:
        return not self._members

    @property
    def state(self) -> ConsumerGroupState:
        if not self._members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target.epoch:
            return ConsumerGroupState.ASSIGNING
        if self._reconciled_count < len(self._members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def classic_count(self) -> int:
        """Number of members that use the classic protocol."""
        return self._classic_count

    def member(self, member_id: str) -> ConsumerMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID."""
        member = self._members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static_members.get(instance_id)
        return None if member_id is None else self._members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Return the target of a member, or that of the static member that it replaces."""
        replaced = self.static_member(member.instance_id)
        return self.target.of(member.member_id if replaced is None else replaced.member_id)

    def put_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace its state."""
        before = self._members.get(member.member_id)
        self._drop(before)
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static_members[member.instance_id] = member.member_id
        self._topic_subscribers.update(member.subscribed_topic_names)
        if member.regex is not None:
            self._regex_subscribers[member.regex] += 1
        if member.server_assignor is not None:
            self._assignors[member.server_assignor] += 1
        if member.classic_metadata is not None:
            self._classic_count += 1
            self._classic_protocols.update(member.classic_protocol_names)
        self._own(member.assigned_partitions, member.member_epoch)
        self._own(member.partitions_pending_revocation, member.member_epoch)
        self._reconciled_count += member.is_reconciled_to(self.target.epoch)

    def remove_member(self, member_id: str) -> None:
        """Remove a member; an unknown one is ignored."""
        member = self._members.pop(member_id, None)
        self._drop(member)
        if member is not None:
            self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        """Forget a member's group.instance.id, unless another member has it now."""
        if member.instance_id is not None and self._static_members.get(member.instance_id) == member.member_id:
            del self._static_members[member.instance_id]

    def _drop(self, member: ConsumerMember | None) -> None:
        """Take a member's state out of the counts."""
        if member is None:
            return
        _subtract(self._topic_subscribers, member.subscribed_topic_names)
        if member.regex is not None:
            _subtract(self._regex_subscribers, (member.regex,))
        if member.server_assignor is not None:
            _subtract(self._assignors, (member.server_assignor,))
        if member.classic_metadata is not None:
            self._classic_count -= 1
            _subtract(self._classic_protocols, member.classic_protocol_names)
        self._disown(member.assigned_partitions, member.member_epoch)
        self._disown(member.partitions_pending_revocation, member.member_epoch)
        self._reconciled_count -= member.is_reconciled_to(self.target.epoch)

    # --- owners of partitions

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """Return the epoch of the member that owns a partition, or -1 if none does."""
        return self._owner_epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    def waits_for_partitions(self, member: ConsumerMember) -> bool:
        """Return True if a partition of the member's target still belongs to another member."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        for topic_id, partitions in self.target.of(member.member_id).items():
            assigned = member.assigned_partitions.get(topic_id, {})
            owners = self._owner_epochs.get(topic_id, {})
            if any(partition in owners for partition in partitions if partition not in assigned):
                return True
        return False

    def _own(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            owners = self._owner_epochs.setdefault(topic_id, {})
            for index in indexes:
                # Two owners would read the same records: the state is wrong, and is loaded again from the log.
                assert index not in owners or owners[index] < epoch, (
                    f"partition {topic_id}-{index} of group {self.group_id} is owned at epoch {owners[index]}"
                )
                owners[index] = epoch

    def _disown(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            owners = self._owner_epochs.get(topic_id)
            if owners is None:
                continue
            for index in indexes:
                if owners.get(index) == epoch:
                    del owners[index]
            if not owners:
                del self._owner_epochs[topic_id]

    # --- epochs

    def replace_target_metadata(self, epoch: int, timestamp_ms: int) -> None:
        self.target.replace_metadata(epoch, timestamp_ms)
        self._reconciled_count = sum(member.is_reconciled_to(epoch) for member in self._members.values())

    # --- subscriptions

    @property
    def subscribed_topics(self) -> set[str]:
        """Topics that any member reads, by name or by regular expression."""
        return self._topic_subscribers.keys() | self._regex_matches.keys()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._topic_subscribers or topic in self._regex_matches

    @property
    def topic_subscribers(self) -> Counter[str]:
        """Copy of the number of members that subscribe to each topic by name."""
        return self._topic_subscribers.copy()

    @property
    def regex_matches(self) -> Counter[str]:
        """Copy of the number of resolved regular expressions that match each topic."""
        return self._regex_matches.copy()

    @property
    def regex_subscribers(self) -> Counter[str]:
        """Copy of the number of members that subscribe to each regular expression."""
        return self._regex_subscribers.copy()

    @property
    def has_regexes(self) -> bool:
        """True if a member subscribes to a regular expression."""
        return bool(self._regex_subscribers)

    def count_regex_subscribers(self, regex: str) -> int:
        return self._regex_subscribers.get(regex, 0)

    @property
    def resolved(self) -> Mapping[str, ResolvedRegex]:
        """Topics of each regular expression that has been resolved."""
        return self._resolved

    def put_resolved(self, regex: str, resolved: ResolvedRegex) -> None:
        self.remove_resolved(regex)
        self._resolved[regex] = resolved
        self._regex_matches.update(resolved.topics)

    def remove_resolved(self, regex: str) -> None:
        before = self._resolved.pop(regex, None)
        if before is not None:
            _subtract(self._regex_matches, before.topics)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return all topics that a member reads. An unresolved regular expression matches none."""
        resolved = None if member.regex is None else self._resolved.get(member.regex)
        if resolved is None:
            return member.subscribed_topic_names
        if not member.subscribed_topic_names:
            return resolved.topics
        return member.subscribed_topic_names | resolved.topics

    # --- assignors and protocols

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """Return the assignor that most members prefer, with `new` in place of `old`; None without a preference."""
        votes = self._assignors.copy()
        if old is not None and old.server_assignor is not None:
            _subtract(votes, (old.server_assignor,))
        # Among equals, Kafka takes the first one of a Java HashMap: uniform, and before it one that is newly preferred.
        # In a small table both are in the same bin, to which a copy appends and an update prepends.
        order = sorted(votes, reverse=True)
        if new is not None and new.server_assignor is not None:
            if new.server_assignor not in votes:
                order.insert(0, new.server_assignor)
            votes[new.server_assignor] += 1
        return max(order, key=votes.__getitem__, default=None)

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return True if a classic member with these protocols can join."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if self.is_empty:
            return any(True for _ in names)
        return any(self._classic_protocols.get(name, 0) == self._classic_count for name in names)

    # --- invariants

    def check_invariants(self) -> None:
        """Assert that counts and indexes agree with the members."""
        members = self._members.values()
        assert self._classic_count == sum(member.uses_classic_protocol for member in members)
        assert self._reconciled_count == sum(member.is_reconciled_to(self.target.epoch) for member in members)
        names = Counter(name for member in members for name in member.subscribed_topic_names)
        assert self._topic_subscribers == names, f"subscriptions of {self.group_id} are counted wrongly"
        assert all(self._members[member_id].instance_id == each for each, member_id in self._static_members.items())
        assert self.target.epoch <= self.epoch, f"the target of {self.group_id} is newer than the group"
        owned = sum(len(indexes) for indexes in self._owner_epochs.values())
        held = sum(
            len(indexes)
            for member in members
            for partitions in (member.assigned_partitions, member.partitions_pending_revocation)
            for indexes in partitions.values()
        )
        assert owned == held, f"{held} partitions of {self.group_id} have {owned} owners"


def _subtract(counter: Counter[str], names: Iterable[str]) -> None:
    """Count each name once less; names with a count of 0 are removed."""
    for name in names:
        count = counter[name] - 1
        assert count >= 0, f"{name} is counted less than 0 times"
        if count:
            counter[name] = count
        else:
            del counter[name]
