"""Brute-force model of a share partition: one entry for each record, and the log that the records are in.

The model predicts acknowledgements, expirations and stored state exactly. Which records an acquisition takes is a
choice of the product: the model checks that the choice is allowed, and follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kwire.protocol.error_codes import ErrorCode
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.share_partition import SharePartition
from kwire.server.sharing.states import Acknowledgement, Acquired, AcquireMode, RecordState, Span

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
FINAL = (ACKNOWLEDGED, ARCHIVED)
GAP_MAX = 4
AFTER = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Log:
    """Batches of a log, some with gaps before them, and some of aborted transactions."""

    batches: list[Span] = field(default_factory=list)
    aborted: list[Span] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def append(self, size: int, *, gap: int, is_aborted: bool) -> None:
        batch = Span(self.end + gap, self.end + gap + size - 1)
        self.batches.append(batch)
        if is_aborted:
            self.aborted.append(batch)
        self.end = batch.last + 1

    def read(self, offset: int, count: int) -> list[Span]:
        return [batch for batch in self.batches if batch.last >= max(offset, self.start)][:count]

    def has(self, offset: int) -> bool:
        return offset >= self.start and any(first <= offset <= last for first, last in self.batches)

    def is_aborted(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self.aborted)


@dataclass
class Entry:
    """In-flight record."""

    state: RecordState
    count: int
    member: str = ""
    deadline_ms: float = -1
    pending: object = None
    owner: str = ""
    """Member before the pending change."""
    session: int = 0
    """Share session that acquired the record."""

    def seen(self) -> tuple[RecordState, int, str, bool]:
        """Return the values that the product has too. The count of a final record does not matter."""
        return self.state, 0 if self.state in FINAL else self.count, self.member, self.pending is not None


class Model:
    """State of a share partition by the rules, record by record."""

    def __init__(self, log: Log, start: int) -> None:
        self.log = log
        self.start = start
        self.entries: dict[int, Entry] = {}
        self.done: set[int] = set()
        """Records whose final state was stored."""

    @property
    def next(self) -> int:
        return max(self.entries, default=self.start - 1) + 1

    def advance(self) -> None:
        """Move the start offset over final records. No other record is skipped."""
        while (entry := self.entries.get(self.start)) is not None and entry.state in FINAL and entry.pending is None:
            del self.entries[self.start]
            self.start += 1

    def cut(self, log_start: int) -> None:
        if log_start > self.start:
            self.entries = {offset: entry for offset, entry in self.entries.items() if offset >= log_start}
            self.start = log_start
            self.advance()

    # --- acquisition

    def follow(
        self,
        real: SharePartition,
        asked: Asked,
        ranges: Sequence[Acquired],
        settings: ShareGroupSettings,
        now_ms: float,
    ) -> None:
        """Check the result of an acquisition, and take it over."""
        was_in_flight = self.next - self.start
        acquired = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
        assert sorted(acquired) == [offset for first, last, _ in ranges for offset in range(first, last + 1)]
        largest = max((last - first + 1 for first, last in self.log.batches), default=0)
        if asked.mode == AcquireMode.RECORD_LIMIT:
            assert len(acquired) <= asked.records_max
        else:
            assert len(acquired) < asked.records_max + max(largest, real.in_flight_count)
        assert real.in_flight_count <= max(was_in_flight, settings.record_locks_max + largest + GAP_MAX)
        if settings.delivery_limit > 2 and settings.delivery_limit in acquired.values():
            assert len(acquired) == 1, "a last delivery contains one record"
        after = {offset: run for run in real.runs() for offset in range(run.first, run.last + 1)}
        for offset in range(self.start, max(real.next_offset, self.next)):
            entry = self.entries.get(offset)
            if offset in acquired:
                assert entry is None or (entry.state == AVAILABLE and entry.pending is None), "two members"
                assert offset not in self.done, "a record that is done is delivered again"
                assert not self.log.is_aborted(offset)
                count = 1 if entry is None else entry.count + 1
                assert acquired[offset] == count <= settings.delivery_limit
                deadline = now_ms + settings.lock_duration_ms
                self.entries[offset] = Entry(ACQUIRED, count, asked.member, deadline, session=asked.session)
            elif offset not in after or (
                after[offset].state == ARCHIVED and (entry is None or entry.state == AVAILABLE)
            ):
                self._check_archived(offset, entry, settings)
        self.advance()

    def _check_archived(self, offset: int, entry: Entry | None, settings: ShareGroupSettings) -> None:
        """Check that a record may be archived without a delivery."""
        if entry is not None and entry.state in FINAL:
            return
        is_exhausted = entry is not None and entry.count >= settings.delivery_limit
        assert not self.log.has(offset) or self.log.is_aborted(offset) or is_exhausted, f"{offset} is skipped"
        assert entry is None or (entry.state == AVAILABLE and entry.pending is None)
        self.entries[offset] = Entry(ARCHIVED, 0)

    # --- acknowledgement

    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[Acknowledgement],
        settings: ShareGroupSettings,
        now_ms: float,
        change: object,
    ) -> ErrorCode:
        """Begin a change, and return the error code that the client must receive."""
        for first, last, types in acknowledgements:
            if last < self.start:
                continue
            if not self.entries:
                return self._undone(change, settings, now_ms, ErrorCode.INVALID_RECORD_STATE)
            if last >= self.next:
                return self._undone(change, settings, now_ms, ErrorCode.INVALID_REQUEST)
            for offset in range(max(first, self.start), last + 1):
                entry = self.entries[offset]
                kind = types[0] if len(types) == 1 else types[offset - first]
                is_owned = entry.state == ACQUIRED and entry.member == member
                if entry.pending is not None or not is_owned or (kind == 4 and not settings.renews_locks):
                    return self._undone(change, settings, now_ms, ErrorCode.INVALID_RECORD_STATE)
                if kind == 4:
                    entry.deadline_ms = now_ms + settings.lock_duration_ms
                else:
                    self._begin(entry, AFTER[kind], settings, change)
        return ErrorCode.NONE

    def _begin(self, entry: Entry, state: RecordState, settings: ShareGroupSettings, change: object) -> None:
        if state == AVAILABLE and entry.count >= settings.delivery_limit:
            state = ARCHIVED
        entry.pending, entry.owner = change, entry.member
        entry.state, entry.member = state, ""

    def _undone(self, change: object, settings: ShareGroupSettings, now_ms: float, code: ErrorCode) -> ErrorCode:
        self.finish(change, is_stored=False, settings=settings, now_ms=now_ms)
        return code

    def release(self, member: str, session: int, settings: ShareGroupSettings, change: object) -> None:
        for entry in self.entries.values():
            if entry.state == ACQUIRED and entry.member == member and entry.session <= session:
                self._begin(entry, AVAILABLE, settings, change)

    def expire(self, settings: ShareGroupSettings, now_ms: float) -> None:
        for entry in self.entries.values():
            if 0 <= entry.deadline_ms <= now_ms:
                entry.deadline_ms = -1
                if entry.pending is None:
                    is_last = entry.count >= settings.delivery_limit
                    entry.state, entry.member = ARCHIVED if is_last else AVAILABLE, ""

    def finish(self, change: object, *, is_stored: bool, settings: ShareGroupSettings, now_ms: float) -> None:
        for offset, entry in self.entries.items():
            if entry.pending is not change or change is None:
                continue
            entry.pending = None
            if is_stored:
                entry.deadline_ms = -1
                if entry.state in FINAL:
                    self.done.add(offset)
            elif entry.deadline_ms > now_ms:
                entry.state, entry.member = ACQUIRED, entry.owner
            else:
                is_last = entry.count >= settings.delivery_limit
                entry.state, entry.deadline_ms = ARCHIVED if is_last else AVAILABLE, -1
        self.advance()

    # --- comparison

    def check(self, real: SharePartition) -> None:
        real.check_invariants()
        assert (real.start_offset, real.next_offset) == (self.start, self.next)
        seen = {
            offset: (run.state, 0 if run.is_final else run.count, run.member, run.pending is not None)
            for run in real.runs()
            for offset in range(run.first, run.last + 1)
        }
        assert seen == {offset: entry.seen() for offset, entry in sorted(self.entries.items())}
        assert real.delivery_complete_count == sum(entry.state in FINAL for entry in self.entries.values())
        acquirable = [o for o, entry in sorted(self.entries.items()) if entry.state == AVAILABLE and not entry.pending]
        assert real.next_fetch_offset() == (acquirable[0] if acquirable else self.next)
