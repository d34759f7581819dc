"""Range assignor: each member of a topic gets one range of its partitions, in the order of members.

Topics with the same subscribers and number of partitions are co-partitioned: a member has the same range of each.
Static members come first, ordered by group.instance.id, the others follow by member id. The present target has no
influence. The order of Java's collections does not matter, because each topic is assigned independently.
"""

from __future__ import annotations

from itertools import repeat
from uuid import UUID

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.group_order import partition_count, subscribers_by_topic
from kwire.coordinator.group.assignors.java_order import string_order_key
from kwire.coordinator.group.assignors.pace import Pace
from kwire.coordinator.group.modern.assignor import AssignmentInput
from kwire.coordinator.group.modern.target_assignment import Partitions


def assign_ranges(group: AssignmentInput) -> Pieces[dict[str, Partitions]]:
    """Return a target assignment in ranges. Raises ValueError if a subscribed topic does not exist."""
    pace = Pace()
    member_ids = _sorted_members(group)
    yield
    subscribers = yield from subscribers_by_topic(group, member_ids, pace)
    result: list[dict[UUID, frozenset[int]]] = [{} for _ in member_ids]
    for topic_id, members in subscribers.items():
        count = partition_count(group, topic_id)
        quota, larger = divmod(count, len(members))
        if pace.is_full(1 + (len(members) if quota else larger)):
            yield
        start = 0
        quotas = repeat(quota, len(members) - larger) if quota else ()
        for member, size in zip(members, (*repeat(quota + 1, larger), *quotas), strict=False):
            result[member][topic_id] = frozenset(range(start, start + size))
            start += size
    return dict(zip(member_ids, result, strict=True))


def _sorted_members(group: AssignmentInput) -> list[str]:
    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = group.members[member_id].instance_id
        return instance_id is None, string_order_key(member_id if instance_id is None else instance_id)

    return sorted(group.members, key=key)
