"""Uniform assignor of a group whose members subscribe to different topics.

1. Each member keeps its target, except for topics to which it no longer subscribes.
2. Partitions without an owner go to the members of their topic with the fewest partitions. Topics with many partitions
   for each subscriber come first.
3. Topic by topic, partitions move from the members with the most partitions to those with the fewest. This repeats
   until a round over all topics moves nothing, at most 16 times. With partly overlapping subscriptions, the result may
   be less than perfectly balanced.

The order of members decides ties; it is that of Java's HashMap (java_order). Topics are sorted, so that the order of
other collections does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.balancer import Balancer, least_loaded
from kwire.coordinator.group.assignors.group_order import members_in_order, partition_count, subscribers_by_topic
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.modern.assignor import AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions

ROUNDS_MAX: Final = 16
_NO_OWNER: Final = -1
_SIGNS: Final = 1 << 127 | 1 << 63
"""Java compares the two halves of a topic id as signed numbers."""


class _Assignment:
    """Assignment in progress. Members are numbers in the order of Java's HashMap."""

    __slots__ = ("owners", "sizes", "subscribers")

    def __init__(self, subscribers: Mapping[UUID, list[int]], owners: dict[UUID, list[int]], member_count: int) -> None:
        self.subscribers = subscribers
        """Members by topic, ascending."""
        self.owners = owners
        """Member of each partition, or -1."""
        self.sizes = [0] * member_count
        """Number of partitions of each member."""


def assign_by_load(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a balanced, sticky target assignment. Raises ValueError if a subscribed topic does not exist."""
    pace = Pace()
    member_ids = yield from members_in_order(group, pace)
    subscribers = yield from subscribers_by_topic(group, member_ids, pace)
    owners: dict[UUID, list[int]] = {}
    for topic_id in subscribers:
        owners[topic_id] = [_NO_OWNER] * partition_count(group, topic_id)
        if pace.is_full(1 + len(owners[topic_id]) // 8):
            yield
    assignment = _Assignment(subscribers, owners, len(member_ids))
    yield from _keep_targets(group, member_ids, assignment, pace)
    topic_ids = yield from _sorted_topics(assignment, pace)
    yield from _assign_free(topic_ids, assignment, pace)
    yield from _balance([it for it in topic_ids if len(subscribers[it]) > 1], assignment, pace)
    return (yield from _by_member(member_ids, assignment, pace))


def _keep_targets(
    group: AssignmentInput, member_ids: Sequence[str], assignment: _Assignment, pace: Pace
) -> Pieces[None]:
    """Make each member the owner of the partitions of its target whose topic it subscribes to."""
    for index, member_id in enumerate(member_ids):
        member = group.members[member_id]
        for topic_id, partitions in member.target.items():
            if topic_id in member.topic_ids:
                _keep_topic(assignment, topic_id, partitions, index)
            if pace.is_full(1 + len(partitions) // 2):
                yield


def _keep_topic(assignment: _Assignment, topic_id: UUID, partitions: AbstractSet[int], member: int) -> None:
    owners = assignment.owners[topic_id]
    for partition in partitions:
        if partition < len(owners):
            owners[partition] = member
            assignment.sizes[member] += 1


def _sorted_topics(assignment: _Assignment, pace: Pace) -> Pieces[list[UUID]]:
    """Return the topics with the most partitions per subscriber first, then fewest subscribers, then smallest id."""
    alike: dict[tuple[float, int], dict[int, UUID]] = {}
    for topic_id, members in assignment.subscribers.items():
        key = -len(assignment.owners[topic_id]) / len(members), len(members)
        alike.setdefault(key, {})[topic_id.int ^ _SIGNS] = topic_id
        if pace.is_full(2):
            yield
    ordered: list[UUID] = []
    for _, by_number in sorted(alike.items()):
        ordered += [by_number[number] for number in sorted(by_number)]
        if pace.is_full(1 + len(by_number)):
            yield
    return ordered


def _assign_free(topic_ids: Iterable[UUID], assignment: _Assignment, pace: Pace) -> Pieces[None]:
    """Assign the partitions without an owner to the members with the fewest partitions."""
    sizes = assignment.sizes
    for topic_id in topic_ids:
        owners = assignment.owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == _NO_OWNER]
        units = 1 + len(owners) // 8
        if free:
            members = assignment.subscribers[topic_id]
            for partition, member in zip(free, least_loaded(members, sizes, len(free)), strict=True):
                owners[partition] = member
                sizes[member] += 1
            units += len(free) + len(members) // 8
        if pace.is_full(units):
            yield


def _balance(topic_ids: Sequence[UUID], assignment: _Assignment, pace: Pace) -> Pieces[None]:
    """Move partitions until a round over the topics, which have several subscribers, moves nothing."""
    balancer = Balancer(assignment.sizes)
    last_moved: UUID | None = None
    for _ in range(ROUNDS_MAX):
        for topic_id in topic_ids:
            if topic_id == last_moved:
                return
            members = assignment.subscribers[topic_id]
            is_balanced, units = balancer.start(members)
            if pace.is_full(units):
                yield
            moved = False
            if not is_balanced:
                moved = yield from _balance_topic(assignment.owners[topic_id], balancer, pace)
            if moved or last_moved is None:
                last_moved = topic_id


def _balance_topic(owners: list[int], balancer: Balancer, pace: Pace) -> Pieces[bool]:
    """Move partitions of one topic until its subscribers are balanced. Return True if a partition moved."""
    owned: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        owned.setdefault(owner, []).append(partition)
    if pace.is_full(len(owners) // 4):
        yield
    moved = False
    while (move := balancer.next_move(owned)) is not None:
        giver, taker = move
        owners[owned[giver].pop()] = taker
        balancer.move(giver, taker)
        moved = True
        if pace.is_full(2):
            yield
    return moved


def _by_member(member_ids: Sequence[str], assignment: _Assignment, pace: Pace) -> Pieces[dict[str, Partitions]]:
    """Return the partitions of each member."""
    result: list[dict[UUID, AbstractSet[int]]] = [{} for _ in member_ids]
    for topic_id, owners in assignment.owners.items():
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        for member, partitions in owned.items():
            result[member][topic_id] = frozenset(partitions)
        if pace.is_full(1 + len(owners) // 2):
            yield
    return dict(zip(member_ids, result, strict=True))
