"""Checker of share semantics: anomalies in the events of one share group.

    double acquisition          a record is acquired while another session certainly has it
    acknowledged by another     an acknowledgement is stored while another session certainly has the record
    lower delivery count        a delivery count does not increase: within a lease, or after a stored release
    delivery limit exceeded     a record is delivered more often than the limit allows
    delivered after completion  a record is delivered after its stored acceptance or rejection, by no earlier leader
    skipped record              the start offset is above a record that no member can have completed
    rewound start offset        the start offset decreases
    lost record                 at the end of a drained history, no member can have completed the record

A session certainly has a record from the response on. That ends when the lock may have expired, when the session
acknowledges the record, and with the last response that proves the session's existence. A record may also be complete
after as many deliveries as the limit; each fetch without a response counts as one. A leader that has not learned of the
next one delivers from its memory, as in Kafka; its members' acknowledgements are rejected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from tests.history.share_events import (
    FAIL,
    INFO,
    NEVER,
    OK,
    RELEASE,
    Acknowledged,
    Alive,
    Delivery,
    Event,
    Sent,
    Start,
    Unanswered,
)

DOUBLE: Final = "double acquisition"
FOREIGN: Final = "acknowledged by another"
LOWER: Final = "lower delivery count"
EXCEEDED: Final = "delivery limit exceeded"
REPEATED: Final = "delivered after completion"
SKIPPED: Final = "skipped record"
REWOUND: Final = "rewound start offset"
LOST: Final = "lost record"
ANOMALIES: Final = (DOUBLE, FOREIGN, LOWER, EXCEEDED, REPEATED, SKIPPED, REWOUND, LOST)


class Finding(NamedTuple):
    """Anomaly in a history."""

    name: str
    text: str


class Record:
    """Events of one offset."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.sent: Sent | None = None
        self.deliveries: list[Delivery] = []
        self.acknowledgements: list[Acknowledged] = []

    @property
    def completions(self) -> Iterator[Acknowledged]:
        """Yield the acknowledgements that may have completed the record."""
        return (each for each in self.acknowledgements if each.kind != RELEASE and each.outcome != FAIL)


def check_shares(events: Sequence[Event], *, lock_seconds: float, limit: int, is_drained: bool = True) -> list[Finding]:
    """Return the anomalies of a share group's history.

    `limit` is the delivery limit; `is_drained` is True if all records must be complete at the end.
    """
    alive: dict[str, float] = defaultdict(lambda: -1.0)
    for event in events:
        if isinstance(event, Alive | Delivery) or (isinstance(event, Acknowledged) and event.outcome != INFO):
            alive[event.session] = max(alive[event.session], event.invoked)
    found: list[Finding] = []
    for partition in sorted({event.partition for event in events}):
        own = [event for event in events if event.partition == partition]
        found += _Checks(own, partition, dict(alive), lock_seconds, limit).run(is_drained=is_drained)
    return found


class _Checks:
    """Checks of one share partition."""

    def __init__(
        self, events: Sequence[Event], partition: int, alive: dict[str, float], lock_seconds: float, limit: int
    ) -> None:
        self._partition = partition
        self._alive = alive
        self._lock_seconds = lock_seconds
        self._limit = limit
        self._starts = sorted((each for each in events if isinstance(each, Start)), key=lambda each: each.completed)
        self._unanswered = [each for each in events if isinstance(each, Unanswered)]
        self._records: dict[int, Record] = {}
        for event in events:
            if isinstance(event, Sent | Delivery | Acknowledged):
                for offset in range(event.first, event.last + 1):
                    self._add(self._records.setdefault(offset, Record(offset)), event)

    def _add(self, record: Record, event: Sent | Delivery | Acknowledged) -> None:
        if isinstance(event, Sent):
            record.sent = event
        elif isinstance(event, Delivery):
            record.deliveries.append(event)
        else:
            record.acknowledgements.append(event)

    def run(self, *, is_drained: bool) -> Iterator[Finding]:
        """Yield all anomalies."""
        for _, record in sorted(self._records.items()):
            record.deliveries.sort(key=lambda each: each.completed)
            yield from self._ownership(record)
            yield from self._counts(record)
            yield from self._repeats(record)
            if is_drained and record.sent is not None and not self._may_be_complete(record, NEVER):
                yield self._finding(LOST, record.offset, "is sent, and never completed")
        yield from self._start_offsets()

    def _finding(self, name: str, offset: int, text: str) -> Finding:
        return Finding(name, f"{self._partition}:{offset} {text}")

    # --- ownership

    def _held_until(self, record: Record, held: Delivery) -> float:
        """Return the time until which a session certainly has a record that it received."""
        ends = [held.invoked + self._lock_seconds, self._alive.get(held.session, -1.0)]
        ends += [
            each.invoked
            for each in record.acknowledgements
            if each.session == held.session and each.completed > held.completed
        ]
        return min(ends)

    def _ownership(self, record: Record) -> Iterator[Finding]:
        for held in record.deliveries:
            if held.lease is None:
                continue
            until = self._held_until(record, held)
            for other in record.deliveries:
                if other is not held and other.lease == held.lease and _is_within(other, held.completed, until):
                    text = f"is acquired by {other.session} at {other.completed} while {held.session} has it"
                    yield self._finding(DOUBLE, record.offset, text)
            for each in record.acknowledgements:
                is_foreign = each.session != held.session and each.lease == held.lease and each.outcome == OK
                if is_foreign and _is_within(each, held.completed, until):
                    text = f"is acknowledged by {each.session} at {each.completed} while {held.session} has it"
                    yield self._finding(FOREIGN, record.offset, text)

    # --- delivery counts

    def _counts(self, record: Record) -> Iterator[Finding]:
        for each in record.deliveries:
            if each.count > self._limit:
                text = f"is delivered to {each.session} with count {each.count} of {self._limit}"
                yield self._finding(EXCEEDED, record.offset, text)
        for one, other in combinations(record.deliveries, 2):
            is_same_lease = one.lease is not None and one.lease == other.lease
            is_ordered = one.completed <= other.invoked
            if is_same_lease and (one.count == other.count or (is_ordered and other.count < one.count)):
                text = f"is delivered to {other.session} with count {other.count} after {one.count}"
                yield self._finding(LOWER, record.offset, text)
        for released in record.acknowledgements:
            if released.kind == RELEASE and released.outcome == OK:
                yield from self._counts_after(record, released)

    def _counts_after(self, record: Record, released: Acknowledged) -> Iterator[Finding]:
        """Yield deliveries after a stored release with a count that is not higher."""
        before = [
            each
            for each in record.deliveries
            if each.session == released.session and each.completed <= released.invoked
        ]
        if not before:
            return
        # An earlier delivery may have a higher count, which a new leader did not know.
        count = max(before, key=lambda each: each.completed).count
        for each in record.deliveries:
            if each.invoked >= released.completed and each.count <= count and not _is_replaced(each, released):
                text = f"is delivered to {each.session} with count {each.count} after a release at {count}"
                yield self._finding(LOWER, record.offset, text)

    # --- completion

    def _repeats(self, record: Record) -> Iterator[Finding]:
        stored = [each for each in record.completions if each.outcome == OK]
        for each in record.deliveries:
            earlier = (done for done in stored if done.completed <= each.invoked and not _is_replaced(each, done))
            if (done := next(earlier, None)) is not None:
                text = f"is delivered to {each.session} at {each.completed} and was complete at {done.completed}"
                yield self._finding(REPEATED, record.offset, text)

    def _may_be_complete(self, record: Record, at: float) -> bool:
        """Return True if a record that was sent may be complete at a time."""
        if any(each.invoked <= at for each in record.completions):
            return True
        sent = record.sent.invoked if record.sent is not None else 0.0
        highest = max((each.count for each in record.deliveries if each.invoked <= at), default=0)
        unseen = sum(each.completed >= sent and each.invoked <= at for each in self._unanswered)
        return highest + unseen >= self._limit

    def _start_offsets(self) -> Iterator[Finding]:
        for start in self._starts:
            for offset, record in sorted(self._records.items()):
                if offset < start.offset and record.sent and not self._may_be_complete(record, start.completed):
                    text = f"is below the start offset {start.offset} at {start.completed}, and not complete"
                    yield self._finding(SKIPPED, offset, text)
        for before, after in combinations(self._starts, 2):
            if after.offset < before.offset and before.completed <= after.invoked:
                yield self._finding(REWOUND, after.offset, f"is the start offset after {before.offset}")


def _is_within(event: Event, begin: float, end: float) -> bool:
    return begin <= event.invoked and event.completed <= end


def _is_replaced(delivery: Delivery, stored: Acknowledged) -> bool:
    """Return True if a delivery may be that of a leader before the one that stored an acknowledgement.

    A fetch is served in the leader epoch in which it was sent, or in a later one.
    """
    if delivery.leader_epoch is None or stored.leader_epoch is None:
        return False
    return delivery.leader_epoch < stored.leader_epoch
