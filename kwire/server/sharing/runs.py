"""In-flight records of a share partition as runs: ranges of records with the same state.

The runs cover the in-flight offsets without holes or overlaps. An operation on a part of a run splits it; equal
neighbours are merged again. So the memory depends on how often the state changes along the offsets, and not on the
number of records: a batch of a million records is one run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kwire.server.sharing.states import FIRST_FINAL, RecordState, Span

NO_MEMBER = ""


class Lock:
    """Acquisition lock of records that were acquired or renewed together."""

    __slots__ = ("deadline_ms", "first", "held", "last", "session")

    def __init__(self, deadline_ms: float, first: int, last: int, session: int) -> None:
        self.deadline_ms = deadline_ms
        self.first = first
        self.last = last
        self.session = session
        """Number of the share session that acquired the records."""
        self.held = 0
        """Number of records that still have this lock."""

    def __lt__(self, other: Lock) -> bool:
        return self.deadline_ms < other.deadline_ms


class Pending:
    """State of a run before a change that the persister has not stored yet."""

    __slots__ = ("change", "member")

    def __init__(self, change: object, member: str) -> None:
        self.change = change
        self.member = member
        """Member that acquired the records: only acquired records have a pending change."""


class Run:
    """Range of in-flight records with the same state."""

    __slots__ = ("batch", "count", "first", "last", "lock", "member", "pending", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        count: int,
        *,
        batch: Span | None,
        member: str = NO_MEMBER,
        lock: Lock | None = None,
        pending: Pending | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        """Number of deliveries; 0 if the records were never delivered, as far as the persister has stored."""
        self.batch = batch
        """Range that was acquired together for the first time; None before that."""
        self.member = member
        """Member that has acquired the records; empty in other states."""
        self.lock = lock
        """Lock of acquired records. It stays while their acknowledgement is pending."""
        self.pending = pending

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def session(self) -> int:
        """Number of the share session that acquired the records."""
        assert self.lock is not None, "acquired records have a lock"
        return self.lock.session

    @property
    def is_final(self) -> bool:
        """True if the records are acknowledged or archived."""
        return self.state >= FIRST_FINAL

    @property
    def is_acquirable(self) -> bool:
        """True if a fetch may acquire the records."""
        return self.state == RecordState.AVAILABLE and self.pending is None

    def is_like(self, other: Run) -> bool:
        """Return True if a run may be merged with its neighbour."""
        if self.pending is not None or other.pending is not None or self.state != other.state:
            return False
        if self.is_final:
            return True
        same = self.count == other.count and self.batch == other.batch
        return same and self.member == other.member and self.lock is other.lock

    def part(self, first: int, last: int) -> Run:
        """Return a run with the same state for a part of the range. The caller removes that part from this run."""
        return Run(
            first,
            last,
            self.state,
            self.count,
            batch=self.batch,
            member=self.member,
            lock=self.lock,
            pending=self.pending,
        )

    def __repr__(self) -> str:
        waits = " pending" if self.pending is not None else ""
        return f"<Run {self.first}..{self.last} {self.state.name} {self.count} {self.member!r}{waits}>"


class Runs:
    """Runs in the order of their offsets, without holes."""

    __slots__ = ("_firsts", "_runs")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, index: int) -> Run:
        return self._runs[index]

    def append(self, run: Run) -> None:
        assert not self._runs or run.first == self._runs[-1].last + 1, "runs have no holes"
        assert run.first <= run.last, "a run has records"
        self._firsts.append(run.first)
        self._runs.append(run)

    def index_of(self, offset: int) -> int:
        """Return the index of the run that contains an offset; the offset must be in flight."""
        return bisect_right(self._firsts, offset) - 1

    def from_offset(self, offset: int) -> Iterator[Run]:
        """Yield the runs from the one with this offset on. The caller must not split or merge runs meanwhile."""
        for index in range(self.index_of(offset), len(self._runs)):
            yield self._runs[index]

    def cut_out(self, run_index: int, first: int, last: int) -> tuple[int, Run]:
        """Split a run so that its part within first..last is a run; return the index of that part and the part."""
        run = self._runs[run_index]
        if run.first < first:
            rest = run.part(first, run.last)
            run.last = first - 1
            run_index += 1
            self._insert(run_index, rest)
            run = rest
        if run.last > last:
            self._insert(run_index + 1, run.part(last + 1, run.last))
            run.last = last
        return run_index, run

    def _insert(self, index: int, run: Run) -> None:
        self._firsts.insert(index, run.first)
        self._runs.insert(index, run)

    def drop_first(self, count: int) -> None:
        """Remove the first runs."""
        del self._firsts[:count]
        del self._runs[:count]

    def cut_first(self, offset: int) -> None:
        """Remove the records below an offset from the first run."""
        self._runs[0].first = self._firsts[0] = offset

    def merge(self, first_index: int, last_index: int) -> None:
        """Merge equal neighbours among the runs with these indexes."""
        merged = [self._runs[first_index]]
        for run in self._runs[first_index + 1 : last_index + 1]:
            if merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        if len(merged) <= last_index - first_index:
            self._runs[first_index : last_index + 1] = merged
            self._firsts[first_index : last_index + 1] = [run.first for run in merged]
