"""Checks of groups: committed offsets that decrease, and partitions with two owners."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from tests.history.findings import Finding
from tests.history.operations import FAIL, OK, Own, Restore, Store
from tests.history.timeline import ABORTED, Timeline

NONE = -1


@dataclass(frozen=True, slots=True)
class Write:
    """Commit of an offset; if it took effect, it did between the two times."""

    offset: int
    invoked: float
    completed: float
    is_certain: bool
    transaction: str | None


def _later(one: Write, other: Write) -> Write:
    return other if other.invoked > one.invoked else one


class Register:
    """Committed offset of one key in one group."""

    def __init__(self, writes: list[Write]) -> None:
        self._by_offset: dict[int, list[Write]] = defaultdict(list)
        for write in writes:
            self._by_offset[write.offset].append(write)
        self._certain = sorted((write for write in writes if write.is_certain), key=lambda write: write.completed)
        self._newest = list(accumulate(self._certain, _later))

    def newest(self, restore: Restore) -> Write | None:
        """Return the write that began last among those that certainly ended before the read began."""
        place = bisect_left(self._certain, restore.invoked, key=lambda write: write.completed)
        return self._newest[place - 1] if place else None

    def candidates(self, restore: Restore, offset: int) -> list[Write]:
        """Return writes of this offset that the read may have returned, even if a certain write follows them."""
        return [write for write in self._by_offset[offset] if write.invoked < restore.completed]

    def may_be(self, restore: Restore, offset: int) -> bool:
        """Return True if it is the offset of a write that no other one had certainly replaced when the read began."""
        newest = self.newest(restore)
        if newest is None:
            return offset == NONE or bool(self.candidates(restore, offset))
        return any(write.completed >= newest.invoked for write in self.candidates(restore, offset))


def rewound_commits(timeline: Timeline) -> Iterator[Finding]:
    """Yield reads of a group's committed offset that differ from the last accepted commit."""
    registers, stored_in = _registers(timeline), _transactions(timeline)
    for restore in timeline.all(Restore):
        if restore.outcome != OK:
            continue
        for key, offset in restore.offsets.items():
            register = registers.get((restore.group, key)) or Register([])
            if register.may_be(restore, offset):
                continue
            newest = register.newest(restore)
            involved = [*register.candidates(restore, offset), *([newest] if newest else [])]
            named = {write.transaction for write in involved if write.transaction}
            # A transaction that was aborted may have committed it all the same.
            named |= stored_in.get((restore.group, key, offset), set())
            text = f"{restore.group} is at {key}:{offset}, not {newest.offset if newest else 'without an offset'}"
            yield Finding("rewound commit", text, transactions=tuple(sorted(named)))


def _registers(timeline: Timeline) -> dict[tuple[str, str], Register]:
    writes: dict[tuple[str, str], list[Write]] = defaultdict(list)
    for store in timeline.all(Store):
        if (span := _span(timeline, store)) is not None:
            for key, offset in store.offsets.items():
                writes[store.group, key].append(Write(offset, *span, store.transaction))
    return {place: Register(each) for place, each in writes.items()}


def _transactions(timeline: Timeline) -> dict[tuple[str, str, int], set[str]]:
    """Return the transactions that stored an offset of a key in a group, whatever their end."""
    found: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for store in timeline.all(Store):
        if store.transaction is not None:
            for key, offset in store.offsets.items():
                found[store.group, key, offset].add(store.transaction)
    return found


def _span(timeline: Timeline, store: Store) -> tuple[float, float, bool] | None:
    """Return the times between which it took effect, and whether that is certain; None if it did not."""
    if store.outcome == FAIL:
        return None
    if store.transaction is None:
        return store.invoked, store.completed, store.outcome == OK
    transaction = timeline.transactions[store.transaction]
    commit = transaction.commit
    if transaction.fate == ABORTED or commit is None:
        return None
    return commit.invoked, commit.completed, store.outcome == commit.outcome == OK


def double_owners(timeline: Timeline) -> Iterator[Finding]:
    """Yield keys with two owners: in one generation, or at the same time if both gave the key back in order."""
    owned: dict[tuple[str, str], list[Own]] = defaultdict(list)
    for own in timeline.all(Own):
        for key in own.keys:
            owned[own.group, key].append(own)
    for (group, key), intervals in owned.items():
        for first, second in [*_same_generation(intervals), *_overlapping(intervals)]:
            text = (
                f"{first.process} and {second.process} own {key} in {group} ({first.generation}, {second.generation})"
            )
            yield Finding("double owner", text)
    yield from _late_commits(timeline)


def _same_generation(intervals: list[Own]) -> Iterator[tuple[Own, Own]]:
    first: dict[int, Own] = {}
    for own in (own for own in intervals if own.generation != NONE):
        before = first.setdefault(own.generation, own)
        if before.process != own.process:
            yield before, own


def _overlapping(intervals: list[Own]) -> Iterator[tuple[Own, Own]]:
    """Yield overlapping intervals whose owners both gave the key back: one that lost it may not have known in time."""
    longest: Own | None = None
    for own in (own for own in intervals if own.outcome == OK):
        if longest is not None and own.invoked < longest.completed and own.process != longest.process:
            yield longest, own
        if longest is None or own.completed > longest.completed:
            longest = own


def _late_commits(timeline: Timeline) -> Iterator[Finding]:
    """Yield commits of an older generation that began after a newer one existed, and were accepted."""
    evidence = [(own.invoked, own.group, own.generation) for own in timeline.all(Own)]
    stores = [store for store in timeline.all(Store) if store.outcome == OK and store.generation >= 0]
    evidence += [(store.completed, store.group, store.generation) for store in stores]
    evidence.sort()
    newest: dict[str, int] = {}
    place = 0
    for store in stores:
        while place < len(evidence) and evidence[place][0] < store.invoked:
            _, group, generation = evidence[place]
            newest[group] = max(generation, newest.get(group, NONE))
            place += 1
        if store.generation < newest.get(store.group, NONE):
            after = newest[store.group]
            text = f"{store.process} commits for {store.group} in generation {store.generation} after {after}"
            named = (store.transaction,) if store.transaction else ()
            yield Finding("double owner", text, transactions=named)
