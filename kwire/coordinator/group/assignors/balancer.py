"""Choice of members to balance: the members of one topic with the fewest and the most partitions.

The choices and their order are those of Kafka's uniform assignor for heterogeneous groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def least_loaded(members: Sequence[int], sizes: Sequence[int], count: int) -> list[int]:
    """Return the members that get the next `count` partitions, one each time they occur.

    The members with the smallest size are filled first, one partition each, up to the next larger size.
    """
    lowest = min([sizes[member] for member in members])
    chosen = [member for member in members if sizes[member] == lowest]
    if len(chosen) >= count:
        return chosen[:count]
    ordered = sorted(members, key=sizes.__getitem__)
    level, end = lowest, len(chosen)
    while len(chosen) < count:
        level += 1
        while end < len(ordered) and sizes[ordered[end]] == level:
            end += 1
        chosen += ordered[:end]
    return chosen[:count]


class Balancer:
    """Two ranges in the list of a topic's members, which is sorted by size.

    `[0, _low_end)` are the members with the fewest partitions, `[_high_start, _high_end)` those with the most. All
    members of a range had `_low` or `_high` partitions when its present round began. A round gives one partition to
    each member of the low range, or takes one from each of the high range; then the range grows by the members that
    now have the same size. Members at `_high_end` and above have nothing to give.
    """

    __slots__ = (
        "_balanced_at",
        "_changes",
        "_high",
        "_high_end",
        "_high_start",
        "_low",
        "_low_end",
        "_members",
        "_next_high",
        "_next_low",
        "_sizes",
    )

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes
        """Number of partitions of each member; shared with the assignor."""
        self._changes = 0
        self._balanced_at: dict[int, int] = {}
        """Number of changes at which a list of members, by its identity, was balanced."""

    def start(self, members: Sequence[int]) -> tuple[bool, int]:
        """Begin with the members of a topic. Return True if they are balanced, and the units of work."""
        if self._balanced_at.get(id(members)) == self._changes:
            return True, 1
        loads = [self._sizes[member] for member in members]
        lowest, highest = min(loads), max(loads)
        if highest - lowest <= 1:
            self._balanced_at[id(members)] = self._changes
            return True, 1 + len(members) // 8
        self._members = sorted(members, key=self._sizes.__getitem__)
        self._low_end, self._low, self._next_low = 0, lowest - 1, 0
        self._high_start = self._high_end = len(members)
        self._high, self._next_high = highest + 1, len(members) - 1
        return False, 1 + len(members) // 2

    def next_move(self, owned: Mapping[int, Sequence[int]]) -> tuple[int, int] | None:
        """Return the next member to give a partition, and the member to take it; None if the topic is balanced."""
        if self._is_balanced():
            return None
        giver = self._next_giver(owned)
        if giver is None:
            return None
        taker = self._next_taker()
        return None if self._is_balanced() else (giver, taker)

    def move(self, giver: int, taker: int) -> None:
        """Store that a partition moved."""
        self._sizes[giver] -= 1
        self._sizes[taker] += 1
        self._changes += 1

    def _is_balanced(self) -> bool:
        return self._high - self._low <= 1

    def _next_taker(self) -> int:
        if self._next_low >= self._low_end:
            self._low += 1
            while self._low_end < len(self._members) and self._sizes[self._members[self._low_end]] == self._low:
                self._low_end += 1
            self._next_low = 0
        taker = self._members[self._next_low]
        self._next_low += 1
        return taker

    def _next_giver(self, owned: Mapping[int, Sequence[int]]) -> int | None:
        """Return the next member of the high range that has a partition of the topic; leave out the others."""
        while True:
            if self._next_high < self._high_start:
                self._extend_high_range()
            if self._next_high < 0:
                return None
            giver = self._members[self._next_high]
            self._next_high -= 1
            if owned.get(giver):
                return giver
            self._leave_out(self._next_high + 1)

    def _extend_high_range(self) -> None:
        if self._high_end <= self._high_start and self._high_start > 0:
            # No member of the range has anything to give: continue with the next smaller size that exists.
            self._high = self._sizes[self._members[self._high_start - 1]]
        else:
            self._high -= 1
        while self._high_start > 0 and self._sizes[self._members[self._high_start - 1]] == self._high:
            self._high_start -= 1
        self._next_high = self._high_end - 1

    def _leave_out(self, position: int) -> None:
        """Move the member at this position out of the high range, to its end."""
        self._high_end -= 1
        members = self._members
        members[position], members[self._high_end] = members[self._high_end], members[position]
