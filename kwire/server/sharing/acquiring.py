"""Acquisition of records by one share fetch: which records it gets, in which ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.server.sharing.in_flight import InFlight
from kwire.server.sharing.runs import Lock, Run
from kwire.server.sharing.states import Acquired, AcquireMode, RecordState, Span

RANGES_MAX: Final = 256
"""Ranges that one acquisition returns; this bounds its time."""
IN_FLIGHT_MAX: Final = 10_000
"""Records that are in flight at most: the highest group.share.max.partition.max.record.locks, and as many state batches
as the share coordinator stores. Kafka has no such limit in the mode for whole batches.
"""
THROTTLED_DELIVERY_MIN: Final = 2
"""Records with fewer deliveries are never throttled."""


class Asked(NamedTuple):
    """Records that a share fetch asks for."""

    member: str
    session: int
    """Number of the member's share session."""
    mode: int
    batch_size: int
    """Preferred number of records in a range; ranges begin and end with batches of the log."""
    records_max: int


def throttled_from(delivery_limit: int) -> int:
    """Return the delivery count from which records are delivered in smaller ranges."""
    return max(THROTTLED_DELIVERY_MIN, (delivery_limit + 1) // 2)


class Acquisition:
    """Acquisition in progress.

    A record that often fails to be processed may make its consumer crash, and the records beside it would be archived
    with it. So from half of the delivery limit on, each delivery contains half as many records of a batch, and a
    record's last delivery contains only that record.
    """

    __slots__ = (
        "_asked",
        "_delivery_limit",
        "_in_flight",
        "_log_batches",
        "_log_firsts",
        "_new_max",
        "_room",
        "_throttled_from",
        "count",
        "is_over",
        "lock",
        "ranges",
    )

    def __init__(
        self,
        in_flight: InFlight,
        asked: Asked,
        *,
        room: int,
        in_flight_max: int,
        delivery_limit: int,
        lock: Lock,
        log_batches: Sequence[Span],
    ) -> None:
        self._in_flight = in_flight
        self._asked = asked
        self._room = room
        """Records that may be acquired; in the mode for whole batches, the last one may exceed it."""
        self._new_max = max(in_flight_max - in_flight.size, 0)
        """Records after those in flight that may be acquired; no batch exceeds it."""
        self._delivery_limit = delivery_limit
        self._throttled_from = throttled_from(delivery_limit)
        self._log_batches = log_batches
        self._log_firsts = [each.first for each in log_batches]
        self.lock = lock
        self.count = 0
        self.is_over = False
        """True if no more records are to be acquired."""
        self.ranges: list[Acquired] = []

    def take_in_flight(self, first: int, last: int) -> None:
        """Acquire records that were acquired before and are available again."""
        offset = first
        while offset <= last and not self.is_over:
            run = self._in_flight.runs[self._in_flight.runs.index_of(offset)]
            end = min(run.last, last)
            if run.is_acquirable:
                if run.batch is None:
                    end = self._take_undelivered(run, offset, end)
                else:
                    end = min(run.batch.last, last)
                    self._take_batch(run.batch, offset, end)
            offset = end + 1

    def take_new(self, last: int) -> None:
        """Acquire records after those in flight."""
        first = self._in_flight.next_offset
        last = min(last, first + self._new_max - 1)
        for batch in self._ranges_of_batches(first, last):
            self._in_flight.append(
                batch.last, RecordState.ACQUIRED, 1, batch=batch, member=self._asked.member, lock=self.lock
            )
            self._add(batch.first, batch.last, 1, is_new_range=True)

    def _take_undelivered(self, run: Run, first: int, last: int) -> int:
        """Acquire in-flight records without a stored state; return the last offset that was examined."""
        end = last
        for batch in self._ranges_of_batches(first, last):
            part = self._in_flight.cut(run, batch.first, batch.last)
            part.batch = batch
            self._take(part, is_new_range=True)
            end = batch.last
            if batch.last < last:
                run = self._in_flight.runs[self._in_flight.runs.index_of(batch.last + 1)]
        return end

    def _ranges_of_batches(self, first: int, last: int) -> list[Span]:
        """Return the ranges in which undelivered records are acquired, and limit them to the room."""
        room = self._room - self.count
        if first > last or room <= 0:
            return []
        end = min(last, first + room - 1)
        if self._asked.mode == AcquireMode.RECORD_LIMIT:
            return [Span(first, end)]
        end = min(last, self._end_of_batch(end))
        found: list[Span] = []
        size_min = max(self._asked.batch_size, 1)
        if end - first + 1 > size_min:
            start = bisect_right(self._log_firsts, first)
            for next_first in self._log_firsts[start:]:
                if next_first > end or len(self.ranges) + len(found) >= RANGES_MAX:
                    break
                if next_first - first >= size_min:
                    found.append(Span(first, next_first - 1))
                    first = next_first
        if len(self.ranges) + len(found) < RANGES_MAX:
            found.append(Span(first, end))
        return found

    def _end_of_batch(self, offset: int) -> int:
        """Return the last offset of the batch of the log that contains an offset."""
        index = bisect_right(self._log_firsts, offset) - 1
        if index < 0:
            return offset
        return max(offset, self._log_batches[index].last)

    def _take_batch(self, batch: Span, first: int, last: int) -> None:
        """Acquire the available records of a range that were once acquired together."""
        in_flight = self._in_flight
        highest = self._highest_count(first, last)
        is_throttled = highest >= self._throttled_from
        if is_throttled and self.count:
            self.is_over = True
            return
        taken, most = 0, batch.last - batch.first + 1
        for run in in_flight.walk(first, last):
            if not run.is_acquirable:
                continue
            if run.count >= self._delivery_limit:  # the limit was lowered
                in_flight.change(in_flight.cut(run, first, last), RecordState.ARCHIVED, lock=None)
                continue
            is_last_delivery = run.count == self._delivery_limit - 1 and self._delivery_limit > THROTTLED_DELIVERY_MIN
            if run.count >= self._throttled_from:
                most = min(most, max(1, (batch.last - batch.first + 1) >> (run.count - self._throttled_from + 1)))
            start = max(run.first, first)
            size = min(run.last, last) - start + 1
            size = min(size, most - taken, self._size_max())
            if is_last_delivery:
                size = 0 if taken else min(size, 1)
            if size <= 0 or len(self.ranges) >= RANGES_MAX:
                break
            is_new_range = not taken
            taken += self._take(in_flight.cut(run, start, start + size - 1), is_new_range=is_new_range)
            if is_last_delivery:
                break
        self.is_over |= is_throttled and taken > 0

    def _highest_count(self, first: int, last: int) -> int:
        """Return the highest delivery count of the available records of a range, as far as they can be acquired."""
        highest = count = 0
        for run in self._in_flight.runs.from_offset(first):
            if run.first > last:
                break
            if run.is_acquirable:
                highest = max(highest, run.count)
                count += 1
                if count == RANGES_MAX:
                    break
        return highest

    def _size_max(self) -> int:
        """Return how many more records of a batch that was acquired before may be acquired."""
        if self._asked.mode == AcquireMode.RECORD_LIMIT:
            return self._room - self.count
        return self._in_flight.size

    def _take(self, run: Run, *, is_new_range: bool) -> int:
        assert run.is_acquirable, "no record is acquired by two members"
        assert run.count < self._delivery_limit, "the delivery count never exceeds its limit"
        run.count += 1
        self._in_flight.change(run, RecordState.ACQUIRED, member=self._asked.member, lock=self.lock)
        self._add(run.first, run.last, run.count, is_new_range=is_new_range)
        return run.size

    def _add(self, first: int, last: int, delivery_count: int, *, is_new_range: bool) -> None:
        previous = self.ranges[-1] if self.ranges else None
        if (
            previous is not None
            and not is_new_range
            and previous.last + 1 == first
            and previous.delivery_count == delivery_count
        ):
            self.ranges[-1] = Acquired(previous.first, last, delivery_count)
        else:
            self.ranges.append(Acquired(first, last, delivery_count))
        self.count += last - first + 1
        self.is_over |= self.count >= self._room or len(self.ranges) >= RANGES_MAX


def without(ranges: Sequence[Acquired], removed: Sequence[Span]) -> list[Acquired]:
    """Return the parts of acquired ranges that are in none of the removed ones; both are in ascending order."""
    rest: list[Acquired] = []
    index = 0
    for first, last, delivery_count in ranges:
        while index < len(removed) and removed[index].last < first:
            index += 1
        following = index
        start = first
        while following < len(removed) and removed[following].first <= last:
            if start < removed[following].first:
                rest.append(Acquired(start, removed[following].first - 1, delivery_count))
            start = max(start, removed[following].last + 1)
            following += 1
        if start <= last:
            rest.append(Acquired(start, last, delivery_count))
    return rest
