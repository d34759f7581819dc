"""Uniform assignor of a group whose members all subscribe to the same topics.

Each member gets `total // members` partitions, and `total % members` members get one more. A member keeps its target up
to its quota. Partitions above the quotas and partitions without an owner go to the members that are not full, both in
the order of Java's collections (java_order).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.group_order import copy_in_order, members_in_order, partition_count
from kwire.coordinator.group.assignors.java_order import partitions_in_order, topics_in_order
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.modern.assignor import AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions

_UNITS_OF_MEMBER = 4


@dataclass(slots=True)
class _Free:
    """Partitions to assign, in order."""

    runs: deque[tuple[UUID, Sequence[int]]] = field(default_factory=deque)
    """Topic id and partitions of this topic that follow each other; never empty."""

    def add(self, topic_id: UUID, partitions: Sequence[int]) -> None:
        if partitions:
            self.runs.append((topic_id, partitions))

    def take(self, quota: int) -> dict[UUID, set[int]]:
        """Remove and return the next partitions, at most `quota`."""
        taken: dict[UUID, set[int]] = {}
        while quota and self.runs:
            topic_id, partitions = self.runs[0]
            taken.setdefault(topic_id, set()).update(partitions[:quota])
            if len(partitions) > quota:
                self.runs[0] = topic_id, partitions[quota:]
                return taken
            del self.runs[0]
            quota -= len(partitions)
        return taken


def assign_uniformly(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a balanced, sticky target assignment. Raises ValueError if a subscribed topic does not exist."""
    pace = Pace()
    member_ids = yield from members_in_order(group, pace)
    if not member_ids:
        return {}
    topic_ids = group.members[member_ids[0]].topic_ids
    free = _Free()
    total = yield from _find_free(group, topic_ids, free, pace)
    result, unfilled = yield from _revoke(group, member_ids, total, free, pace)
    for member_id, quota in unfilled:
        taken = free.take(quota)
        if taken:
            result[member_id] = _union(result[member_id], taken)
        if pace.is_full(_UNITS_OF_MEMBER + quota):
            yield
    return result


def _find_free(group: AssignmentInput, topic_ids: AbstractSet[UUID], free: _Free, pace: Pace) -> Pieces[int]:
    """Add the partitions without an owner. Return the number of all partitions."""
    total = 0
    ordered = yield from copy_in_order(group, topic_ids, pace)
    for topic_id in ordered:
        count = partition_count(group, topic_id)
        total += count
        owned = group.owners.get(topic_id)
        if owned:
            free.add(topic_id, [partition for partition in range(count) if partition not in owned])
        else:
            free.add(topic_id, range(count))
        if pace.is_full(1 + count // 8):
            yield
    return total


def _revoke(
    group: AssignmentInput, member_ids: Sequence[str], total: int, free: _Free, pace: Pace
) -> Pieces[tuple[dict[str, Partitions], list[tuple[str, int]]]]:
    """Return what each member keeps, and the members below their quota with the number of missing partitions.

    The partitions that members lose become free.
    """
    minimum, extras = divmod(total, len(member_ids))
    result: dict[str, Partitions] = {}
    unfilled: list[tuple[str, int]] = []
    for index, member_id in enumerate(member_ids):
        member = group.members[member_id]
        has_extra = extras > 0
        target = _without_overlap(group, member_id, member.target)
        kept, room = _keep(target, member.topic_ids, minimum + has_extra, free)
        if room and has_extra and len(member_ids) - index > extras:
            room -= 1  # a later member takes the extra partition
            has_extra = False
        if room:
            unfilled.append((member_id, room))
        extras -= has_extra
        result[member_id] = kept
        if pace.is_full(_UNITS_OF_MEMBER + sum(map(len, member.target.values()))):
            yield
    return result, unfilled


def _without_overlap(group: AssignmentInput, member_id: str, target: Partitions) -> Partitions:
    """Return a member's target without partitions that are also in the target of another member, their owner.

    Stored targets overlap only because of a fault. If they stayed so, as many other partitions would have no owner.
    """
    if all(
        group.owners.get(topic_id, {}).get(partition) == member_id
        for topic_id, partitions in target.items()
        for partition in partitions
    ):
        return target

    def is_kept(owner: str | None) -> bool:
        # A static member that returns keeps the partitions of its former member id, which is no member any more.
        return owner == member_id or (owner is not None and owner not in group.members)

    kept: dict[UUID, AbstractSet[int]] = {}
    for topic_id, partitions in target.items():
        owners = group.owners.get(topic_id, {})
        rest = frozenset(partition for partition in partitions if is_kept(owners.get(partition)))
        if rest:
            kept[topic_id] = rest
    return kept


def _keep(target: Partitions, topic_ids: AbstractSet[UUID], quota: int, free: _Free) -> tuple[Partitions, int]:
    """Return the partitions of the target that fit into the quota, and the rest of the quota; the others are free."""
    subscribed = target
    if not target.keys() <= topic_ids:
        subscribed = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in topic_ids}
    count = sum(map(len, subscribed.values()))
    if count <= quota:
        return subscribed, quota - count
    kept: dict[UUID, AbstractSet[int]] = {}
    for topic_id in topics_in_order(target):
        if topic_id not in subscribed:
            continue  # it counts for the size of Java's table
        partitions = target[topic_id]
        if len(partitions) > quota:
            ordered = partitions_in_order(partitions)
            free.add(topic_id, ordered[quota:])
            partitions = frozenset(ordered[:quota])
        quota -= len(partitions)
        if partitions:
            kept[topic_id] = partitions
    return kept, quota


def _union(kept: Partitions, taken: dict[UUID, set[int]]) -> Partitions:
    """Return the kept partitions together with those taken."""
    united: dict[UUID, AbstractSet[int]] = dict(kept)
    for topic_id, partitions in taken.items():
        united[topic_id] = frozenset(partitions | kept[topic_id] if topic_id in kept else partitions)
    return united
