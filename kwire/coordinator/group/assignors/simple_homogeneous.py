"""Share groups' assignor ("simple") of a group whose members all subscribe to the same topics.

1. Members keep their targets, except for topics to which they no longer subscribe.
2. Members above their quota lose partitions; then partitions lose members above the number that shares each partition.
3. Members below their quota take turns to get the partitions with too few members.

As in Kafka, a member keeps a partition that is no longer assignable while its topic is subscribed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.group_order import members_in_order, partition_count, topics_by_name
from kwire.coordinator.group.assignors.java_order import (
    in_bins,
    partitions_in_order,
    size_after_computes,
    size_after_puts,
    size_of_expected,
    spread,
    topics_in_order,
    uuid_hash,
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

_SHIFT = 32
_PARTITION = (1 << _SHIFT) - 1
_MASK = 0xFFFF_FFFF
_KEYS_AT_ONCE = 1000


class _Keys:
    """Numbers for partitions: the topic's number in the upper bits, the partition in the lower 32."""

    __slots__ = ("_base", "_hashes", "_topic_ids")

    def __init__(self) -> None:
        self._topic_ids: list[UUID] = []
        self._base: dict[UUID, int] = {}
        self._hashes: list[int] = []

    def add_topic(self, topic_id: UUID) -> None:
        self._base[topic_id] = len(self._topic_ids) << _SHIFT
        self._topic_ids.append(topic_id)
        self._hashes.append(31 * uuid_hash(topic_id))

    def of_target(self, target: Partitions) -> list[int]:
        """Return the partitions of the subscribed topics, in the order of Java's collections."""
        return [
            self._base[topic_id] | partition
            for topic_id in topics_in_order(target)
            if topic_id in self._base
            for partition in partitions_in_order(target[topic_id])
        ]

    def of_topic(self, topic_id: UUID, partitions: Sequence[int]) -> list[int]:
        base = self._base[topic_id]
        return [base | partition for partition in partitions]

    def codes(self, keys: Sequence[int]) -> list[int]:
        """Return the spread hash codes of TopicIdPartition objects."""
        hashes = self._hashes
        return [spread(hashes[key >> _SHIFT] + (key & _PARTITION) & _MASK) for key in keys]

    def partitions(self, keys: AbstractSet[int]) -> Partitions:
        by_topic: dict[int, list[int]] = {}
        for key in sorted(keys):
            by_topic.setdefault(key >> _SHIFT, []).append(key & _PARTITION)
        return {self._topic_ids[topic]: frozenset(partitions) for topic, partitions in by_topic.items()}


class _Sharing:
    """Assignment in progress. Members are numbers in the order of Java's HashMap, partitions those of _Keys."""

    __slots__ = ("held", "keys", "members_of", "pace", "quotas", "sharing", "targets")

    def __init__(self, keys: _Keys, member_count: int, targets: list[int], pace: Pace) -> None:
        self.keys = keys
        self.pace = pace
        self.targets = targets
        """Partitions to assign."""
        self.sharing = sharing_of(member_count, len(targets))
        self.quotas = quotas_of(member_count, len(targets))
        self.members_of: dict[int, set[int]] = {}
        """Members by partition. The order of keys is the order of insertion."""
        self.held: list[set[int]] = []
        """Partitions by member."""


def share_same_topics(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a target assignment with shared partitions. Raises ValueError if a subscribed topic does not exist."""
    pace = Pace()
    member_ids = yield from members_in_order(group, pace)
    if not member_ids or not group.members[member_ids[0]].topic_ids:
        return {member_id: {} for member_id in member_ids}
    topic_ids = group.members[member_ids[0]].topic_ids
    keys = _Keys()
    targets = yield from _targets(group, topic_ids, keys, pace)
    work = _Sharing(keys, len(member_ids), targets, pace)
    before = yield from _keep_targets(group, member_ids, work)
    kept_sizes = yield from shared_too_much(work.members_of, work.sharing, pace)
    yield from _shrink_members(before, work)
    yield from _shrink_partitions(kept_sizes, work)
    unfilled = [member for member, held in enumerate(work.held) if len(held) < work.quotas[member]]
    if unfilled:
        yield from _fill(unfilled, work)
    return (yield from _by_member(group, member_ids, before, work))


def _targets(group: AssignmentInput, topic_ids: AbstractSet[UUID], keys: _Keys, pace: Pace) -> Pieces[list[int]]:
    """Number the topics. Return the partitions that may be assigned."""
    targets: list[int] = []
    for topic_id in (yield from topics_by_name(group, topic_ids, pace)):
        keys.add_topic(topic_id)
        partitions: Sequence[int] = range(partition_count(group, topic_id))
        if group.assignable is not None:
            allowed = group.assignable.get(topic_id, frozenset())
            partitions = [partition for partition in partitions if partition in allowed]
        targets += keys.of_topic(topic_id, partitions)
        if pace.is_full(3 + len(partitions) // 4):
            yield
    return targets


def _keep_targets(group: AssignmentInput, member_ids: Sequence[str], work: _Sharing) -> Pieces[list[list[int]]]:
    """Give each member its present target. Return the partitions of each member, in order."""
    before: list[list[int]] = []
    for member, member_id in enumerate(member_ids):
        ordered = work.keys.of_target(group.members[member_id].target)
        for key in ordered:
            work.members_of.setdefault(key, set()).add(member)
        before.append(ordered)
        work.held.append(set(ordered))
        if work.pace.is_full(4 + 4 * len(group.members[member_id].target) + len(ordered)):
            yield
    return before


def _shrink_members(before: Sequence[Sequence[int]], work: _Sharing) -> Pieces[None]:
    """Remove partitions from members above their quota."""
    for member, keys in enumerate(before):
        excess = len(keys) - work.quotas[member]
        if excess <= 0:
            continue
        codes = work.keys.codes(keys)
        for key in in_bins(keys, codes, size_after_puts(codes))[:excess]:
            work.held[member].remove(key)
            work.members_of[key].remove(member)
        if work.pace.is_full(2 * len(keys)):
            yield


def _shrink_partitions(sizes: Mapping[int, int], work: _Sharing) -> Pieces[None]:
    """Remove members from partitions with more members than share each partition."""
    for key, size in sizes.items():
        members = work.members_of[key]
        for member in first_members(members, len(members) - work.sharing, size):
            members.remove(member)
            work.held[member].remove(key)
        if work.pace.is_full(1 + len(members) // 2):
            yield


def _fill(unfilled: Sequence[int], work: _Sharing) -> Pieces[None]:
    """Assign partitions with too few members."""
    is_last_new = bool(work.targets) and work.targets[-1] not in work.members_of
    for key in work.targets:
        work.members_of.setdefault(key, set())
    if work.pace.is_full(len(work.targets) // 4):
        yield
    order = yield from _partition_order(work, is_last_new=is_last_new)
    held = dict(enumerate(work.held))
    yield from Filling(unfilled, work.quotas).run(order, work.members_of, work.sharing, held, work.pace)


def _partition_order(work: _Sharing, *, is_last_new: bool) -> Pieces[Iterator[int]]:
    """Return the partitions in the order of a HashMap that computeIfAbsent filled."""
    keys = list(work.members_of)
    codes: list[int] = []
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        codes += work.keys.codes(keys[start : start + _KEYS_AT_ONCE])
        if work.pace.is_full(_KEYS_AT_ONCE // 2):
            yield
    size = size_after_computes(codes, size_of_expected(len(work.targets)), is_last_call_new=is_last_new)
    bins: dict[int, list[int]] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        for key, code in zip(keys[start : start + _KEYS_AT_ONCE], codes[start : start + _KEYS_AT_ONCE], strict=True):
            bins.setdefault(code & size - 1, []).append(key)
        if work.pace.is_full(_KEYS_AT_ONCE // 2):
            yield
    return (key for number in range(size) if number in bins for key in reversed(bins[number]))


def _by_member(
    group: AssignmentInput, member_ids: Sequence[str], before: Sequence[Sequence[int]], work: _Sharing
) -> Pieces[dict[str, Partitions]]:
    """Return the partitions of each member; the same object as in the input for an unchanged target."""
    result: dict[str, Partitions] = {}
    for member_id, keys, held in zip(member_ids, before, work.held, strict=True):
        target = group.members[member_id].target
        is_same = len(keys) == len(held) == sum(map(len, target.values())) and held.issuperset(keys)
        result[member_id] = target if is_same else work.keys.partitions(held)
        if work.pace.is_full(2 + (len(keys) // 8 if is_same else 2 * len(held))):
            yield
    return result
