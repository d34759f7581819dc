"""Share partition: state machine of the records of one partition that a share group consumes (KIP-932).

Members of the group acquire records, and acknowledge them within the lock duration. A record that is released, or whose
lock expires, is delivered again, until it reaches the delivery limit. The start offset moves past records
in a final state; everything below it is done.

Time is an argument, and the persister is called by led_share_partition.py. A change that must be stored is a `Change`:
its records are in their new state, but pending, until `finish` is called. Work on many runs is done in pieces.

## Invariants

- A record is acquired by at most one member. A record that is pending is acquired by none.
- The delivery count of a record never decreases, and never exceeds the limit at the time of the delivery.
- A record that was acknowledged or archived, and stored as such, is never delivered again.
- Every offset between the start offset and the end is in exactly one run. No offset is skipped.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from kwire.chunks import Pieces
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.sharing.acquiring import IN_FLIGHT_MAX, RANGES_MAX, Acquisition, Asked, without
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.in_flight import Change, InFlight
from kwire.server.sharing.persister import StoredBatch
from kwire.server.sharing.runs import Pending, Run
from kwire.server.sharing.states import (
    AFTER,
    FIRST_FINAL,
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    RecordState,
    Span,
)

RUNS_AT_ONCE: Final = 128
"""Runs that are changed in one step, in a few milliseconds at most."""
FINAL_STATES_STORED: Final = range(FIRST_FINAL, RecordState.ARCHIVED + 1)
"""Delivery states of stored batches that are final. Other software may also store 3, a state before archived."""

_SAME: Final = re.compile(rb"(.)\1*", re.DOTALL)
"""Longest sequences of equal bytes."""


class SharePartition:
    """State of one partition for one share group, on the leader of the partition."""

    __slots__ = ("_in_flight", "_in_flight_max", "_settings", "state_epoch")

    def __init__(
        self,
        start_offset: int,
        *,
        state_epoch: int = 0,
        settings: Callable[[], ShareGroupSettings],
        in_flight_max: Callable[[], int] = lambda: IN_FLIGHT_MAX,
    ) -> None:
        self._settings = settings
        self._in_flight_max = in_flight_max
        self.state_epoch = state_epoch
        self._in_flight = InFlight(start_offset)

    def load(self, batches: Iterable[StoredBatch]) -> Pieces[None]:
        """Load the stored state, in pieces. Raises ValueError if it is inconsistent.

        Offsets between two batches were acquired, and nothing was stored of them. They are available, and their earlier
        deliveries do not count.
        """
        in_flight = self._in_flight
        assert not in_flight.size, "the state is loaded first"
        for number, (first, last, state, count) in enumerate(batches, 1):
            if not in_flight.next_offset <= first <= last:
                raise ValueError(f"batch {first}..{last} of the stored state is not behind {in_flight.next_offset}")
            if first > in_flight.next_offset:
                in_flight.append(first - 1, RecordState.AVAILABLE, 0)
            if state in FINAL_STATES_STORED:
                kept = RecordState.ACKNOWLEDGED if state == RecordState.ACKNOWLEDGED else RecordState.ARCHIVED
            else:
                kept = RecordState.AVAILABLE
            in_flight.append(last, kept, count, batch=Span(first, last))
            if number % RUNS_AT_ONCE == 0:
                yield
        in_flight.advance_start()

    # --- offsets

    @property
    def start_offset(self) -> int:
        """First offset that is not done."""
        return self._in_flight.start_offset

    @property
    def next_offset(self) -> int:
        """First offset that was never acquired."""
        return self._in_flight.next_offset

    @property
    def in_flight_count(self) -> int:
        return self._in_flight.size

    @property
    def delivery_complete_count(self) -> int:
        """Number of records from the start offset on that are acknowledged or archived."""
        return self._in_flight.complete_count

    @property
    def runs_count(self) -> int:
        return len(self._in_flight.runs)

    @property
    def next_deadline_ms(self) -> float | None:
        """Time when the next lock expires; None if no records are acquired."""
        lock = self._in_flight.next_lock()
        return None if lock is None else lock.deadline_ms

    def next_fetch_offset(self) -> int:
        """Return the first offset that can be acquired."""
        return self._in_flight.next_fetch_offset()

    def can_acquire(self) -> bool:
        """Return True if records can be acquired: some are available again, or more may be in flight."""
        in_flight = self._in_flight
        return in_flight.acquirable_count > 0 or in_flight.size < self._locks_max()

    def _locks_max(self) -> int:
        """Return the number of records that may be in flight; in the batch-optimized mode the last batch exceeds it."""
        return min(self._settings().record_locks_max, self._in_flight_max())

    def last_wanted(self, fetch_offset: int, records_max: int) -> int:
        """Return the offset up to which the log must be read to acquire so many records."""
        count = ranges = 0
        in_flight = self._in_flight
        if in_flight.acquirable_count and fetch_offset < in_flight.next_offset:
            for run in in_flight.runs.from_offset(max(fetch_offset, in_flight.start_offset)):
                if run.is_acquirable:
                    count += run.last - max(run.first, fetch_offset) + 1
                    ranges += 1
                    if count >= records_max or ranges == RANGES_MAX:
                        return run.last - max(count - records_max, 0)
        more = min(records_max - count, self._locks_max() - in_flight.size)
        return max(in_flight.next_offset, fetch_offset) + max(more, 0) - 1

    def move_start(self, log_start_offset: int) -> None:
        """Forget the records below the start of the log: they are deleted."""
        if log_start_offset > self._in_flight.start_offset:
            self._in_flight.move_start(log_start_offset)
            self._in_flight.advance_start()

    # --- acquisition

    def acquire(
        self, asked: Asked, fetch_offset: int, log_batches: Sequence[Span], now_ms: float, aborted: Sequence[Span] = ()
    ) -> list[Acquired]:
        """Acquire records of batches that were read from a fetch offset on.

        Records of `aborted` batches are archived instead: a read_committed consumer must not get them.
        """
        in_flight, settings = self._in_flight, self._settings()
        if not log_batches or asked.records_max <= 0 or log_batches[-1].last < in_flight.start_offset:
            return []
        base, last = max(log_batches[0].first, in_flight.start_offset), log_batches[-1].last
        room = min(asked.records_max, self._locks_max() - in_flight.size)
        if room <= 0:
            if fetch_offset >= in_flight.next_offset:
                return []
            # No more records may be in flight, but some of those are available.
            last = min(last, in_flight.next_offset - 1)
            room = min(asked.records_max, in_flight.next_offset - fetch_offset)
        self._archive_absent(fetch_offset, base - 1)
        acquisition = Acquisition(
            in_flight,
            asked,
            room=room,
            in_flight_max=self._in_flight_max(),
            delivery_limit=settings.delivery_limit,
            lock=in_flight.new_lock(now_ms + settings.lock_duration_ms, base, last, asked.session),
            log_batches=log_batches,
        )
        acquisition.take_in_flight(base, min(last, in_flight.next_offset - 1))
        if not acquisition.is_over and last >= in_flight.next_offset:
            self._skip_hole(base)
            acquisition.take_new(last)
        ranges = acquisition.ranges
        if ranges and aborted:
            self._archive_aborted(acquisition, aborted)
            ranges = without(ranges, aborted)
        in_flight.advance_start()
        return ranges

    def _skip_hole(self, base: int) -> None:
        """Skip offsets at the end of the in-flight records that the log does not have: they were compacted away."""
        in_flight = self._in_flight
        if base <= in_flight.next_offset:
            return
        if in_flight.size:
            in_flight.append(base - 1, RecordState.ARCHIVED, 0)
        else:
            in_flight.move_start(base)

    def _archive_absent(self, first: int, last: int) -> None:
        """Archive the available records of a range that the log does not have."""
        for run in self._in_flight.walk(first, last):
            if run.is_acquirable:
                self._in_flight.change(self._in_flight.cut(run, first, last), RecordState.ARCHIVED, lock=None)

    def _archive_aborted(self, acquisition: Acquisition, aborted: Sequence[Span]) -> None:
        in_flight = self._in_flight
        first, last = acquisition.ranges[0].first, acquisition.ranges[-1].last
        start = bisect_left(aborted, first, key=lambda each: each.last)
        for span in aborted[start:]:
            if span.first > last:
                break
            for run in in_flight.walk(span.first, span.last):
                if run.lock is acquisition.lock:
                    in_flight.change(in_flight.cut(run, span.first, span.last), RecordState.ARCHIVED, lock=None)

    # --- acknowledgement

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: float) -> Pieces[Change]:
        """Acknowledge records that a member has acquired; return the change to store.

        Raises KafkaError if one of them cannot be acknowledged; then none is, but locks may have been renewed.
        """
        change = Change()
        done = 0
        try:
            for acknowledgement in acknowledgements:
                for span, kind in self._checked(acknowledgement):
                    for run in self._in_flight.walk(*span):
                        self._check_owner(run, member)
                        part = self._in_flight.cut(run, *span)
                        if kind == AcknowledgeType.RENEW:
                            self._renew(part, now_ms)
                        else:
                            self._begin(change, part, AFTER[AcknowledgeType(kind)])
                        done += 1
                        if done % RUNS_AT_ONCE == 0:
                            yield
        except KafkaError:
            yield from self.finish(change, is_stored=False, now_ms=now_ms)
            raise
        return change

    def _checked(self, acknowledgement: Acknowledgement) -> Iterator[tuple[Span, int]]:
        """Yield the ranges with the same type, without those below the start offset."""
        first, last, types = acknowledgement
        in_flight = self._in_flight
        if last < in_flight.start_offset:
            return
        if not in_flight.size:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if last >= in_flight.next_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        if not types or min(types) < AcknowledgeType.GAP or max(types) > AcknowledgeType.RENEW:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {types[:16]}")
        start = max(first, in_flight.start_offset)
        if len(types) == 1:
            yield Span(start, last), types[0]
            return
        for same in _SAME.finditer(bytes(types[start - first : last - first + 1])):
            yield Span(start + same.start(), start + same.end() - 1), same[0][0]

    def _check_owner(self, run: Run, member: str) -> None:
        """Raise KafkaError if a member may not acknowledge a run."""
        if run.pending is not None:
            text = "The record state is invalid. The acknowledgement of delivery could not be completed."
        elif run.state != RecordState.ACQUIRED:
            text = "The batch cannot be acknowledged. The batch is not in the acquired state."
        elif run.member != member:
            text = "Member is not the owner of batch record"
        else:
            return
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, text)

    def _renew(self, run: Run, now_ms: float) -> None:
        settings = self._settings()
        if not settings.renews_locks:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        deadline_ms = now_ms + settings.lock_duration_ms
        lock = self._in_flight.new_lock(deadline_ms, run.first, run.last, run.session)
        self._in_flight.change(run, RecordState.ACQUIRED, member=run.member, lock=lock)

    def _begin(self, change: Change, run: Run, state: RecordState) -> None:
        """Begin to change acquired records; they are pending until the change is stored."""
        pending = Pending(change, run.member)
        self._in_flight.change(run, self._limited(run, state), lock=run.lock, pending=pending)
        change.add(run)

    def _limited(self, run: Run, state: RecordState) -> RecordState:
        """Return the state of a run after a change: a record that has reached the delivery limit is not available."""
        if state == RecordState.AVAILABLE and run.count >= self._settings().delivery_limit:
            return RecordState.ARCHIVED
        return state

    # --- other ends of an acquisition

    def release(self, member: str, session: int) -> Pieces[Change]:
        """Release all records that a member has acquired up to a share session; return the change to store.

        The member may have opened another session meanwhile. What that session acquired stays acquired.
        """
        change = Change()
        for done, run in enumerate(self._in_flight.walk(0, self._in_flight.next_offset - 1), 1):
            if run.state == RecordState.ACQUIRED and run.member == member and run.session <= session:
                self._begin(change, run, RecordState.AVAILABLE)
            if done % RUNS_AT_ONCE == 0:
                yield
        return change

    def expire(self, now_ms: float) -> Change:
        """Release some of the records whose locks have expired; the next deadline says whether there are more.

        The records are available at once, so the change must be stored before a later one of these records. It is not
        undone if it cannot be stored.
        """
        in_flight = self._in_flight
        change = Change(is_reversible=False)
        done = 0
        while done < RUNS_AT_ONCE and (lock := in_flight.next_lock()) is not None and lock.deadline_ms <= now_ms:
            for run in in_flight.walk(lock.first, lock.last):
                lock.first = run.last + 1
                if run.lock is lock:
                    if run.pending is None:
                        in_flight.change(run, self._limited(run, RecordState.AVAILABLE), lock=None)
                        change.add(run)
                    else:  # undone later, the records would be released
                        in_flight.change(run, run.state, lock=None, pending=run.pending)
                done += 1
                if done >= RUNS_AT_ONCE:
                    break
            else:
                assert not lock.held, "an expired lock holds no records"
        return change

    def finish(self, change: Change, *, is_stored: bool, now_ms: float) -> Pieces[bool]:
        """Complete a change that was stored, or undo it; return True if records have become available or done."""
        in_flight = self._in_flight
        has_effect = not change.is_reversible
        for number, span in enumerate(change.ranges, 1):
            unmerged = span.first
            for done, run in enumerate(in_flight.walk(*span), 1):
                if run.pending is not None and run.pending.change is change:
                    self._complete(run, run.pending, is_stored=is_stored, now_ms=now_ms)
                    has_effect |= run.state != RecordState.ACQUIRED
                if done % RUNS_AT_ONCE == 0:
                    last = run.last
                    in_flight.merge(unmerged, last)
                    unmerged = last + 1
                    yield
            in_flight.merge(unmerged, span.last)
            if number % RUNS_AT_ONCE == 0:
                yield
        in_flight.advance_start()
        return has_effect

    def _complete(self, run: Run, pending: Pending, *, is_stored: bool, now_ms: float) -> None:
        in_flight = self._in_flight
        if is_stored:
            in_flight.change(run, run.state, lock=None)
        elif run.lock is not None and run.lock.deadline_ms > now_ms:
            in_flight.change(run, RecordState.ACQUIRED, member=pending.member, lock=run.lock)
        else:
            in_flight.change(run, self._limited(run, RecordState.AVAILABLE), lock=None)

    # --- for tests

    def check_invariants(self) -> None:
        """Check the consistency of redundant data; the time grows with the number of runs."""
        self._in_flight.check_invariants()

    def runs(self) -> list[Run]:
        """Return the runs of the in-flight records."""
        return list(self._in_flight.runs)
