"""In-flight records of a share partition: their states, the start offset, the counts and the acquisition locks.

Every change of a record's state goes through `change`, which keeps the counts and asserts the allowed transitions:

                     acquire                    accept
        Available -----------------> Acquired ----------> Acknowledged
            ^  |                      |    |
            |  | absent from the log  |    | reject, gap, aborted transaction, last delivery not accepted
            |  +----------------------|----+-----------> Archived
            +-------------------------+
              release, lock expires, member leaves
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from kwire.server.sharing.runs import NO_MEMBER, Lock, Pending, Run, Runs
from kwire.server.sharing.states import RecordState, Span, StateBatch

LOCKS_KEPT_MIN: Final = 64
"""Released locks stay in the heap until there are this many and they outnumber the held ones."""


class Change:
    """Change of records that the persister has to store."""

    __slots__ = ("batches", "is_reversible", "ranges")

    def __init__(self, *, is_reversible: bool = True) -> None:
        self.is_reversible = is_reversible
        """True if the change is undone when the persister does not store it."""
        self.ranges: list[Span] = []
        """Ranges with pending runs."""
        self.batches: list[StateBatch] = []

    def add(self, run: Run) -> None:
        """Add a run in its new state."""
        batches = self.batches
        batch = StateBatch(run.first, run.last, int(run.state), run.count)
        if batches and batches[-1][2:] == batch[2:] and batches[-1].last + 1 == batch.first:
            batches[-1] = StateBatch(batches[-1].first, *batch[1:])
        else:
            batches.append(batch)
        ranges = self.ranges
        if ranges and ranges[-1].last + 1 == run.first:
            ranges[-1] = Span(ranges[-1].first, run.last)
        else:
            ranges.append(Span(run.first, run.last))


class InFlight:
    """Records between the start offset and the first offset that was never acquired."""

    __slots__ = (
        "_acquirable_from",
        "_heap",
        "_held_locks",
        "acquirable_count",
        "complete_count",
        "next_offset",
        "runs",
    )

    def __init__(self, start_offset: int) -> None:
        self.runs = Runs()
        self.next_offset = start_offset
        """First offset after the in-flight records."""
        self.complete_count = 0
        """Number of in-flight records in a final state."""
        self.acquirable_count = 0
        self._acquirable_from = start_offset
        """No record below this offset can be acquired."""
        self._heap: list[Lock] = []
        self._held_locks = 0

    @property
    def start_offset(self) -> int:
        return self.runs[0].first if len(self.runs) else self.next_offset

    @property
    def size(self) -> int:
        return self.next_offset - self.start_offset

    def walk(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs that overlap a range, in order. Runs may be split, merged or removed meanwhile."""
        offset = max(first, self.start_offset)
        while offset <= last and offset < self.next_offset:
            yield self.runs[self.runs.index_of(offset)]
            if offset >= self.start_offset:
                offset = self.runs[self.runs.index_of(offset)].last + 1
            offset = max(offset, self.start_offset)

    def cut(self, run: Run, first: int, last: int) -> Run:
        """Split a run, and return its part within a range."""
        if run.first >= first and run.last <= last:
            return run
        return self.runs.cut_out(self.runs.index_of(run.first), first, last)[1]

    # --- states

    def append(
        self,
        last: int,
        state: RecordState,
        count: int,
        *,
        batch: Span | None = None,
        member: str = NO_MEMBER,
        lock: Lock | None = None,
    ) -> None:
        """Add the records from the end of the in-flight records to `last`."""
        run = Run(self.next_offset, last, state, count, batch=batch, member=member)
        self.runs.append(run)
        self.next_offset = last + 1
        self._count(run, 1)
        self._set_lock(run, lock)

    def change(
        self,
        run: Run,
        state: RecordState,
        *,
        member: str = NO_MEMBER,
        lock: Lock | None,
        pending: Pending | None = None,
    ) -> None:
        """Change the state of a run."""
        assert not run.is_final or run.pending is not None, "a final state is never left"
        assert (member != NO_MEMBER) == (state == RecordState.ACQUIRED), "acquired records have exactly one member"
        assert state != RecordState.ACQUIRED or lock is not None, "acquired records have a lock"
        self._count(run, -1)
        run.state = state
        run.member = member
        run.pending = pending
        self._count(run, 1)
        self._set_lock(run, lock)
        if run.is_acquirable:
            self._acquirable_from = min(self._acquirable_from, run.first)

    def _count(self, run: Run, sign: int) -> None:
        if run.is_final:
            self.complete_count += sign * run.size
        elif run.is_acquirable:
            self.acquirable_count += sign * run.size

    def next_fetch_offset(self) -> int:
        """Return the first offset that can be acquired, which may be the end of the in-flight records."""
        if self.acquirable_count:
            for run in self.runs.from_offset(max(self._acquirable_from, self.start_offset)):
                if run.is_acquirable:
                    self._acquirable_from = run.first
                    return run.first
        self._acquirable_from = self.next_offset
        return self.next_offset

    # --- start offset

    def advance_start(self) -> bool:
        """Remove final records from the start; return True if the start offset has moved."""
        count = 0
        for run in self.runs:
            if not run.is_final or run.pending is not None:
                break
            count += 1
            self._count(run, -1)
        self.runs.drop_first(count)
        return count > 0

    def move_start(self, offset: int) -> None:
        """Remove all records below an offset: the log has deleted them."""
        count = 0
        for run in self.runs:
            if run.first >= offset:
                break
            self._count(run, -1)
            if run.last >= offset:
                self._hold(run.lock, run.first - offset)
                run.first = offset
                self._count(run, 1)
                break
            self._set_lock(run, None)
            count += 1
        self.runs.drop_first(count)
        if not len(self.runs):
            self.next_offset = max(self.next_offset, offset)
        elif self.runs[0].first == offset:
            self.runs.cut_first(offset)

    def merge(self, first: int, last: int) -> None:
        """Merge equal runs in a range and beside it."""
        first, last = max(first - 1, self.start_offset), min(last + 1, self.next_offset - 1)
        if first <= last:
            self.runs.merge(self.runs.index_of(first), self.runs.index_of(last))

    # --- locks

    def new_lock(self, deadline_ms: float, first: int, last: int, session: int) -> Lock:
        lock = Lock(deadline_ms, first, last, session)
        heapq.heappush(self._heap, lock)
        if len(self._heap) > max(LOCKS_KEPT_MIN, 2 * self._held_locks):
            self._heap = [each for each in self._heap if each.held or each is lock]
            heapq.heapify(self._heap)
        return lock

    def next_lock(self) -> Lock | None:
        """Return the lock that expires first; None if no records have a lock."""
        while self._heap and not self._heap[0].held:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _set_lock(self, run: Run, lock: Lock | None) -> None:
        if run.lock is lock:
            return
        self._hold(run.lock, -run.size)
        run.lock = lock
        self._hold(lock, run.size)

    def _hold(self, lock: Lock | None, size: int) -> None:
        if lock is not None:
            was_held = lock.held > 0
            lock.held += size
            self._held_locks += (lock.held > 0) - was_held

    # --- invariants

    def check_invariants(self) -> None:
        """Compare the counts with the runs; for tests, because the time grows with the number of runs."""
        complete = acquirable = 0
        offset = self.start_offset
        held: dict[Lock, int] = {}
        for run in self.runs:
            assert run.first == offset, "runs have no holes"
            assert run.first <= run.last, "a run has records"
            assert (run.member != NO_MEMBER) == (run.state == RecordState.ACQUIRED), run
            assert run.state != RecordState.ACQUIRED or (run.lock is not None and run.pending is None), run
            complete += run.size if run.is_final else 0
            acquirable += run.size if run.is_acquirable else 0
            assert not run.is_acquirable or run.first >= self._acquirable_from, run
            if run.lock is not None:
                held[run.lock] = held.get(run.lock, 0) + run.size
            offset = run.last + 1
        assert offset == self.next_offset
        assert (complete, acquirable) == (self.complete_count, self.acquirable_count)
        assert held == {lock: lock.held for lock in self._heap if lock.held}
        assert len(held) == self._held_locks
