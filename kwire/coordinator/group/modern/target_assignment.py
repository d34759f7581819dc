"""Target assignment of a group: the partitions that each member shall have at an assignment epoch.

The server-side assignor computes it from the subscriptions. Members move towards it one by one (KIP-848).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from uuid import UUID

Partitions = Mapping[UUID, AbstractSet[int]]
"""Partitions by topic id. No inner set is empty."""

NOTHING: Partitions = MappingProxyType({})
FIRST_EPOCH = 1
"""Epoch of a new group, before its first change."""


class TargetAssignment:
    """Target assignment of one group; changed by replay only."""

    def __init__(self) -> None:
        self.epoch = 0
        """Group epoch for which it was computed; -1 after a tombstone."""
        self.timestamp_ms = 0
        """Wall-clock time at which it was computed; 0 if unknown."""
        self._by_member: dict[str, Partitions] = {}
        self._owners: dict[UUID, dict[int, str]] = {}
        self.revision = 0
        """Number of changes so far."""

    @property
    def by_member(self) -> Mapping[str, Partitions]:
        return self._by_member

    @property
    def owners(self) -> Mapping[UUID, Mapping[int, str]]:
        """Member id by topic id and partition; in share groups, one of the members that have the partition."""
        return self._owners

    def of(self, member_id: str) -> Partitions:
        return self._by_member.get(member_id, NOTHING)

    def replace_metadata(self, epoch: int, timestamp_ms: int) -> None:
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms

    def put(self, member_id: str, partitions: Partitions) -> None:
        """Replace the target of a member. A partition that moves may be put at its new owner first."""
        self.revision += 1
        self._disown(member_id, self.of(member_id), partitions)
        self._by_member[member_id] = partitions
        for topic_id, added in partitions.items():
            self._owners.setdefault(topic_id, {}).update(dict.fromkeys(added, member_id))

    def remove(self, member_id: str) -> None:
        self.revision += 1
        self._disown(member_id, self.of(member_id), NOTHING)
        self._by_member.pop(member_id, None)

    def _disown(self, member_id: str, before: Partitions, after: Partitions) -> None:
        for topic_id, partitions in before.items():
            owners = self._owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions - after.get(topic_id, frozenset()):
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self._owners[topic_id]
