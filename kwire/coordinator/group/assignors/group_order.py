"""Order of members, and subscribers by topic: the views of a group that several assignors use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from uuid import UUID

from kwire.chunks import Pieces, chunks
from kwire.coordinator.group.assignors.java_order import (
    in_bins,
    size_after_puts,
    size_of_copy,
    spread,
    string_hash,
    uuid_hash,
)
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.modern.assignor import AssignmentInput

_UNITS_OF_HASH = 8
"""Units of work to hash a member id."""
_CHARACTERS_OF_UNIT = 16
"""Characters of a member id that are hashed in a unit."""
_TOPICS_AT_ONCE = 500
_NONE: list[int] = []


def members_in_order(group: AssignmentInput, pace: Pace) -> Pieces[list[str]]:
    """Return the member ids in the order of Kafka's HashMap of members."""
    codes: list[int] = []
    for member_id in group.members:
        codes.append(spread(string_hash(member_id)))
        if pace.is_full(_UNITS_OF_HASH + len(member_id) // _CHARACTERS_OF_UNIT):
            yield
    return in_bins(group.members, codes, size_after_puts(codes))


def topics_by_name(group: AssignmentInput, topic_ids: AbstractSet[UUID], pace: Pace) -> Pieces[list[UUID]]:
    """Return the iteration order of a member's subscribed topics: in Kafka a `new HashSet<>(names)`."""
    names = {topic_id: group.topic_names.get(topic_id, "") for topic_id in topic_ids}
    ordered = sorted(names, key=names.__getitem__)
    codes: list[int] = []
    for topic_id in ordered:
        name = names[topic_id]
        codes.append(spread(string_hash(name)))
        if pace.is_full(_UNITS_OF_HASH + len(name) // _CHARACTERS_OF_UNIT):
            yield
    return in_bins(ordered, codes, size_after_puts(codes, size_of_copy(len(codes))))


def copy_in_order(group: AssignmentInput, topic_ids: AbstractSet[UUID], pace: Pace) -> Pieces[list[UUID]]:
    """Return the iteration order of `new HashSet<>(topicIds)` of a member's subscribed topics."""
    by_name = yield from topics_by_name(group, topic_ids, pace)
    codes: list[int] = []
    for chunk in chunks(by_name, _TOPICS_AT_ONCE):
        codes += [spread(uuid_hash(topic_id)) for topic_id in chunk]
        if pace.is_full(len(chunk)):
            yield
    ordered = in_bins(by_name, codes, size_after_puts(codes, size_of_copy(len(codes))))
    if pace.is_full(len(codes)):
        yield
    return ordered


def subscribers_by_topic(
    group: AssignmentInput, member_ids: Sequence[str], pace: Pace
) -> Pieces[dict[UUID, list[int]]]:
    """Return the indexes of the members that subscribe to each topic, ascending.

    Topics with the same subscribers may share a list.
    """
    alike: dict[frozenset[UUID], list[int]] = {}
    for index, member_id in enumerate(member_ids):
        topic_ids = frozenset(group.members[member_id].topic_ids)
        is_known = topic_ids is group.members[member_id].topic_ids and topic_ids in alike
        alike.setdefault(topic_ids, []).append(index)
        if pace.is_full(1 if is_known else 1 + len(topic_ids) // 8):
            yield
    sources: dict[UUID, list[int]] = {}
    for number, topic_ids in enumerate(alike):
        for chunk in chunks(topic_ids, _TOPICS_AT_ONCE):
            for topic_id in chunk:
                sources.setdefault(topic_id, []).append(number)
            if pace.is_full(len(chunk)):
                yield
    return (yield from _merged(sources, list(alike.values()), pace))


def _merged(sources: Mapping[UUID, list[int]], alike: Sequence[list[int]], pace: Pace) -> Pieces[dict[UUID, list[int]]]:
    """Return the members of all the sources of each topic."""
    known: dict[tuple[int, ...], list[int]] = {}
    subscribers: dict[UUID, list[int]] = {}
    for topic_id, numbers in sources.items():
        key = tuple(numbers)
        members = known.get(key, _NONE)
        is_new = members is _NONE
        if is_new:
            members = known[key] = sorted(index for number in numbers for index in alike[number])
        subscribers[topic_id] = members
        if pace.is_full(1 + len(members) // 8 if is_new else 1):
            yield
    return subscribers


def partition_count(group: AssignmentInput, topic_id: UUID) -> int:
    """Return the number of partitions. Raises ValueError if the topic does not exist, as Kafka's assignors do."""
    count = group.partition_counts.get(topic_id)
    if count is None:
        raise ValueError(f"members subscribe to topic {topic_id}, which does not exist")
    return count
