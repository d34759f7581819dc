"""Share groups' assignor ("simple") of a group whose members subscribe to different topics.

Each topic is assigned independently, in the same steps as in simple_homogeneous. The order of topics does not matter.

One result differs from Kafka 4.3: a member loses the partitions of topics to which no member subscribes. Kafka keeps
them if other topics are subscribed, although it removes them in all other cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import UUID

from kwire.chunks import Pieces, chunks
from kwire.coordinator.group.assignors.group_order import members_in_order, partition_count, subscribers_by_topic
from kwire.coordinator.group.assignors.java_order import (
    numbers_after_adds,
    partitions_in_order,
    size_after_computes,
    size_of_expected,
    spread,
)
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.assignors.share_filling import (
    Filling,
    first_members,
    quotas_of,
    shared_too_much,
    sharing_of,
)
from kwire.coordinator.group.modern.assignor import AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions

_TOPICS_AT_ONCE = 500
_Holders = list[tuple[int, AbstractSet[int]]]
"""Members with a partition of one topic in their target, ascending, and these partitions."""


class _Topic(NamedTuple):
    """Assignment of one topic in progress. Members are numbers in the order of Java's HashMap."""

    targets: Sequence[int]
    """Partitions to assign."""
    quotas: Mapping[int, int]
    """Number of partitions by subscriber."""
    sharing: int
    members_of: dict[int, set[int]]
    """Members by partition. The order of keys is the order of insertion."""
    held: defaultdict[int, set[int]]
    """Partitions by member."""


def share_different_topics(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a target assignment with shared partitions. Raises ValueError if a subscribed topic does not exist."""
    pace = Pace()
    member_ids = yield from members_in_order(group, pace)
    subscribers = yield from subscribers_by_topic(group, member_ids, pace)
    holders = yield from _holders_by_topic(group, member_ids, subscribers, pace)
    result: list[dict[UUID, AbstractSet[int]]] = [{} for _ in member_ids]
    known_quotas: dict[tuple[int, int], list[int]] = {}
    for topic_id, members in subscribers.items():
        targets = _targets(group, topic_id)
        counts = len(members), len(targets)
        quotas = known_quotas.get(counts)
        if quotas is None:
            quotas = known_quotas[counts] = quotas_of(*counts)
        if pace.is_full(1 + len(members) // 2 + len(targets) // 4):
            yield
        quota_of = dict(zip(members, quotas, strict=True))
        topic = _Topic(targets, quota_of, sharing_of(*counts), {}, defaultdict(set))
        yield from _assign_topic(topic, holders.pop(topic_id, []), pace)
        known: dict[frozenset[int], frozenset[int]] = {}
        for member, partitions in topic.held.items():
            if partitions:
                numbers = frozenset(partitions)
                result[member][topic_id] = known.setdefault(numbers, numbers)  # members with the same ones share a set
        if pace.is_full(len(topic.held)):
            yield
    return dict(zip(member_ids, result, strict=True))


def _holders_by_topic(
    group: AssignmentInput, member_ids: Sequence[str], topic_ids: Mapping[UUID, object], pace: Pace
) -> Pieces[dict[UUID, _Holders]]:
    """Return the present targets by topic, for these topics."""
    holders: dict[UUID, _Holders] = {}
    for member, member_id in enumerate(member_ids):
        for chunk in chunks(group.members[member_id].target.items(), _TOPICS_AT_ONCE):
            for topic_id, partitions in chunk:
                if topic_id in topic_ids:
                    holders.setdefault(topic_id, []).append((member, partitions))
            if pace.is_full(1 + len(chunk)):
                yield
    return holders


def _targets(group: AssignmentInput, topic_id: UUID) -> Sequence[int]:
    """Return the partitions of the topic that may be assigned."""
    partitions = range(partition_count(group, topic_id))
    if group.assignable is None:
        return partitions
    allowed = group.assignable.get(topic_id, frozenset())
    return [partition for partition in partitions if partition in allowed]


def _assign_topic(topic: _Topic, holders: _Holders, pace: Pace) -> Pieces[None]:
    """Revoke and assign the partitions of one topic."""
    yield from _keep_targets(topic, holders, pace)
    kept_sizes = yield from shared_too_much(topic.members_of, topic.sharing, pace)
    yield from _shrink_members(topic, holders, pace)
    yield from _shrink_partitions(topic, kept_sizes, pace)
    order = _partition_order(topic)
    held = topic.held
    unfilled = [member for member, quota in topic.quotas.items() if len(held.get(member, ())) < quota]
    if pace.is_full(len(topic.quotas) // 4 + len(topic.targets)):
        yield
    yield from Filling(unfilled, topic.quotas).run(order, topic.members_of, topic.sharing, topic.held, pace)


def _keep_targets(topic: _Topic, holders: _Holders, pace: Pace) -> Pieces[None]:
    """Give each member its present target."""
    for member, partitions in holders:
        topic.held[member] = set(partitions)
        for partition in partitions_in_order(partitions):
            topic.members_of.setdefault(partition, set()).add(member)
        if pace.is_full(1 + len(partitions)):
            yield


def _shrink_members(topic: _Topic, holders: _Holders, pace: Pace) -> Pieces[None]:
    """Remove partitions from members above their quota; the quota of a member without subscription is 0."""
    for member, partitions in holders:
        excess = len(partitions) - topic.quotas.get(member, 0)
        if excess <= 0:
            continue
        for partition in numbers_after_adds(partitions_in_order(partitions))[:excess]:
            topic.held[member].remove(partition)
            topic.members_of[partition].remove(member)
        if pace.is_full(2 * len(partitions)):
            yield


def _shrink_partitions(topic: _Topic, sizes: Mapping[int, int], pace: Pace) -> Pieces[None]:
    """Remove members from partitions with more members than share each partition."""
    for partition, size in sizes.items():
        members = topic.members_of[partition]
        for member in first_members(members, len(members) - topic.sharing, size):
            members.remove(member)
            topic.held[member].remove(partition)
        if pace.is_full(1 + len(members) // 2):
            yield


def _partition_order(topic: _Topic) -> Iterator[int]:
    """Add the partitions without members. Return all in the order of a HashMap that computeIfAbsent filled."""
    members_of = topic.members_of
    is_last_new = bool(topic.targets) and topic.targets[-1] not in members_of
    for partition in topic.targets:
        members_of.setdefault(partition, set())
    codes = list(map(spread, members_of))
    size = size_after_computes(codes, size_of_expected(len(topic.targets)), is_last_call_new=is_last_new)
    return iter(numbers_after_adds(list(reversed(members_of)), size))
