"""Steps that both forms of the share groups' assignor have in common.

Each partition shall have `sharing` members. Each member shall have a number of partitions: its quota.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import ceil
from typing import TypeVar

from kwire.chunks import Pieces
from kwire.coordinator.group.assignors.java_order import numbers_after_adds, size_after_puts, spread
from kwire.coordinator.group.assignors.pace import Pace

K = TypeVar("K")


def sharing_of(member_count: int, partition_count: int) -> int:
    """Return the number of members that each partition shall have; 0 without partitions."""
    return -(-member_count // partition_count) if partition_count else 0


def quotas_of(member_count: int, partition_count: int) -> list[int]:
    """Return the number of partitions that each member shall have. Rounding is that of Java's double."""
    average = sharing_of(member_count, partition_count) * partition_count / member_count
    ends = [ceil(average * number) for number in range(member_count + 1)]
    return [end - start for start, end in itertools.pairwise(ends)]


def shared_too_much(members_of: Mapping[K, AbstractSet[int]], sharing: int, pace: Pace) -> Pieces[dict[K, int]]:
    """Return the partitions with more members than `sharing`, with the size of the HashSet of these members.

    The size is needed later, when the set may contain fewer members: a HashSet never shrinks.
    """
    sizes: dict[K, int] = {}
    for key, members in members_of.items():
        if len(members) > sharing:
            sizes[key] = size_after_puts([spread(member) for member in sorted(members)])
        if pace.is_full(1 + len(members) // 4):
            yield
    return sizes


def first_members(members: AbstractSet[int], count: int, size: int) -> list[int]:
    """Return the first members in the order of a HashSet whose table has this size."""
    return numbers_after_adds(sorted(members), size)[:count] if count > 0 else []


class Filling:
    """Assignment of partitions with too few members to members below their quota, in turns."""

    __slots__ = ("_assigned", "_is_used", "_next", "_quotas", "_staying", "_turn")

    def __init__(self, unfilled: Iterable[int], quotas: Sequence[int] | Mapping[int, int]) -> None:
        self._quotas = quotas
        self._turn = sorted(unfilled)
        """Unfilled members of the present round, ascending."""
        self._staying: list[int] = []
        """Members that were visited in this round and are still below their quota."""
        self._next = 0
        self._is_used = False
        """True if a partition was assigned in this round."""

    @property
    def is_done(self) -> bool:
        """True if all members are filled."""
        return not self._staying and self._next == len(self._turn)

    def run(
        self,
        order: Iterable[K],
        members_of: Mapping[K, AbstractSet[int]],
        sharing: int,
        held: Mapping[int, set[K]],
        pace: Pace,
    ) -> Pieces[None]:
        """Add partitions to `held` in this order, until each has `sharing` members or no member can take more.

        A member may be chosen twice for one partition, as in Kafka: the second time counts, but adds nothing.
        """
        for key in order:
            members = members_of[key]
            for _ in range(sharing - len(members)):
                visited = self._next_without(members)
                if visited is None:
                    return
                member, steps = visited
                held[member].add(key)
                self._is_used = True
                if len(held[member]) < self._quotas[member]:
                    self._staying.append(member)
                if pace.is_full(steps):
                    yield
            if self.is_done:
                return
            if pace.is_full(1):
                yield

    def _next_without(self, members: AbstractSet[int]) -> tuple[int, int] | None:
        """Return the next unfilled member that is not one of these, and the visited members; None at a fruitless end.

        Kafka fails with NoSuchElementException if all members are filled in the middle of a partition.
        """
        steps = 0
        while True:
            if self._next == len(self._turn):
                if not self._is_used or not self._staying:
                    return None
                self._turn, self._staying, self._next, self._is_used = self._staying, [], 0, False
            member = self._turn[self._next]
            self._next += 1
            steps += 1
            if member not in members:
                return member, steps
            self._staying.append(member)
