"""Random operations on a share partition, compared record by record with a brute-force model."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections import deque

import pytest

from kwire.chunks import at_once
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.server.sharing.acquiring import Asked
from kwire.server.sharing.config import ShareGroupSettings
from kwire.server.sharing.in_flight import Change
from kwire.server.sharing.persister import StoredBatch
from kwire.server.sharing.share_partition import SharePartition
from kwire.server.sharing.states import Acknowledgement, Acquired, Span
from tests.server.sharing.memory_persister import StoredState
from tests.server.sharing.model import ACQUIRED, AVAILABLE, FINAL, GAP_MAX, Entry, Log, Model

SEEDS = 150
STEPS = 150
MEMBERS = ("m1", "m2", "m3")


def size_of(ranges: list[Acquired]) -> int:
    return sum(last - first + 1 for first, last, _ in ranges)


class Fuzz:
    """Run of the fuzzer: a share partition, its model, a log, and a store whose writes end later."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.settings = ShareGroupSettings(
            lock_duration_ms=100,
            delivery_limit=self.random.randint(2, 6),
            record_locks_max=self.random.choice((5, 12, 40)),
            offset_reset="earliest",
            isolation_level="read_committed",
            renews_locks=self.random.random() < 0.8,
        )
        self.log = Log()
        self.store = StoredState()
        self.store.start_offset = 0
        self.now_ms = 0.0
        self.has_gaps = self.random.random() < 0.5
        self.was_configured = False
        """True if the delivery limit was changed."""
        self.session = 0
        self.to_write: deque[Change] = deque()
        self.written: tuple[list[Change], int, list[StoredBatch]] | None = None
        self.model = Model(self.log, 0)
        self.real = self._new()

    def _new(self) -> SharePartition:
        return SharePartition(self.model.start, settings=lambda: self.settings)

    # --- operations

    def append(self) -> None:
        gap = self.random.randint(1, GAP_MAX) if self.has_gaps and self.random.random() < 0.25 else 0
        self.log.append(self.random.randint(1, 8), gap=gap, is_aborted=self.random.random() < 0.15)

    def acquire(self) -> None:
        if not self.real.can_acquire():
            return
        offset = self.real.next_fetch_offset()
        batches = self.log.read(offset, self.random.randint(1, 6))
        if not batches:
            return
        random_ = self.random
        self.session += random_.random() < 0.3
        asked = Asked(
            random_.choice(MEMBERS),
            self.session,
            random_.randint(0, 1),
            random_.randint(1, 9),
            random_.randint(1, 20),
        )
        if random_.random() < 0.2:
            self.expire()  # between the choice of the offset and the acquisition
        if random_.random() < 0.5:
            batches = self._wanted(asked, offset)
        ranges = self.real.acquire(asked, offset, batches, self.now_ms, self.log.aborted)
        self.model.follow(self.real, asked, ranges, self.settings, self.now_ms)

    def _wanted(self, asked: Asked, offset: int) -> list[Span]:
        """Return the batches that a fetch reads; with all batches, it would not get records that are not there."""
        batches = self.log.read(offset, len(self.log.batches))
        last = self.real.last_wanted(offset, asked.records_max)
        count = next((index for index, batch in enumerate(batches, 1) if batch.last >= last), len(batches))
        if not self.was_configured:
            real = copy.deepcopy(self.real), copy.deepcopy(self.real)
            some, more = (
                each.acquire(asked, offset, read, 0)
                for each, read in zip(real, (batches[:count], batches), strict=True)
            )
            assert bool(some) == bool(more)
            if not self.has_gaps:
                assert size_of(some) >= min(asked.records_max, size_of(more))
        return batches[:count]

    def _own(self) -> tuple[str, list[int]]:
        member = self.random.choice(MEMBERS)
        own = [o for o, e in sorted(self.model.entries.items()) if e.member == member and e.pending is None]
        return member, own

    def acknowledge(self) -> None:
        member, own = self._own()
        acknowledgements: list[Acknowledgement] = []
        offset = -1
        for _ in range(self.random.randint(1, 3)):
            if own and self.random.random() < 0.9:
                first = self.random.choice(own)
                last = first
                while last + 1 in own and self.random.random() < 0.7:
                    last += 1
            else:
                first = self.random.randint(0, self.log.end + 2)
                last = first + self.random.randint(0, 4)
            if first <= offset:
                continue
            offset = last
            each = self.random.random() < 0.4
            types = [self.random.choice((0, 1, 1, 1, 2, 2, 3, 4)) for _ in range(last - first + 1 if each else 1)]
            acknowledgements.append(Acknowledgement(first, last, types))
        self._compare_acknowledgement(member, acknowledgements)

    def _compare_acknowledgement(self, member: str, acknowledgements: list[Acknowledgement]) -> None:
        change: Change | None = None
        code = ErrorCode.NONE
        try:
            change = at_once(self.real.acknowledge(member, acknowledgements, self.now_ms))
        except KafkaError as error:
            code = error.code
        expected = self.model.acknowledge(member, acknowledgements, self.settings, self.now_ms, change or object())
        assert code == expected, (member, acknowledgements)
        if change is not None and change.batches:
            self.to_write.append(change)

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        session = self.session - self.random.randint(0, 3)
        change = at_once(self.real.release(member, session))
        self.model.release(member, session, self.settings, change)
        if change.batches:
            self.to_write.append(change)

    def expire(self) -> None:
        self.model.expire(self.settings, self.now_ms)
        while (self.real.next_deadline_ms or self.now_ms + 1) <= self.now_ms:
            change = self.real.expire(self.now_ms)
            if change.batches:
                self.to_write.append(change)

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 30, 60, 101))
        if self.random.random() < 0.8:
            self.expire()

    def write(self) -> None:
        """Send the next write, or end the one that was sent."""
        if self.written is None:
            if self.to_write:
                changes = [self.to_write.popleft() for _ in range(self.random.randint(1, len(self.to_write)))]
                batches: list[StoredBatch] = [batch for change in changes for batch in change.batches]
                self.written = changes, self.real.start_offset, batches
            return
        (changes, start_offset, batches), self.written = self.written, None
        is_stored = self.random.random() < 0.8
        if is_stored:
            self.store.write(start_offset, batches)
        for change in changes:
            at_once(self.real.finish(change, is_stored=is_stored, now_ms=self.now_ms))
            self.model.finish(change, is_stored=is_stored, settings=self.settings, now_ms=self.now_ms)

    def cut_log(self) -> None:
        if self.random.random() < 0.2:
            self.log.start = self.random.randint(self.log.start, self.log.end)
            self.real.move_start(self.log.start)
            self.model.cut(self.log.start)

    def configure(self) -> None:
        if self.random.random() < 0.2:
            self.was_configured = True
            self.settings = dataclasses.replace(self.settings, delivery_limit=self.random.randint(2, 6))

    def restart(self) -> None:
        """Load the state again from the store, on another leader."""
        if self.random.random() < 0.7:
            return
        self.to_write.clear()
        if self.written is not None and self.random.random() < 0.5:
            self.store.write(self.written[1], self.written[2])  # it was stored, but not answered
        self.written = None
        done, self.model = self.model.done, Model(self.log, self.store.start_offset)
        self.model.done = done
        for first, last, state, count in self.store.batches():
            for offset in range(self.model.next, first):
                self.model.entries[offset] = Entry(AVAILABLE, 0)
            for offset in range(first, last + 1):
                kept = next(each for each in (AVAILABLE, *FINAL) if each == state)
                self.model.entries[offset] = Entry(kept, count)
        self.model.advance()
        self.real = SharePartition(self.store.start_offset, settings=lambda: self.settings)
        at_once(self.real.load(self.store.batches()))
        self.real.move_start(self.log.start)
        self.model.cut(self.log.start)

    # --- runs

    def run(self) -> None:
        operations = [
            *[self.append] * 2,
            *[self.acquire] * 6,
            *[self.acknowledge] * 6,
            *[self.write] * 6,
            *[self.pass_time] * 2,
            self.release,
            self.cut_log,
            self.configure,
            self.restart,
        ]
        for _ in range(STEPS):
            self.random.choice(operations)()
            self.model.check(self.real)
        self.drain()

    def drain(self) -> None:
        """Check that a member that accepts everything reaches the end of the log."""
        self.now_ms += 1000
        for _ in range(20 + 3 * len(self.log.batches) + 40 * self.settings.delivery_limit):
            while self.to_write or self.written:
                self.write()
            self.expire()
            self.acquire()
            self.model.check(self.real)
            for member in MEMBERS:
                own = [o for o, e in sorted(self.model.entries.items()) if e.state == ACQUIRED and e.member == member]
                self._compare_acknowledgement(member, [Acknowledgement(offset, offset, [1]) for offset in own])
            if self.real.start_offset >= self.log.end:
                return
        raise AssertionError(f"{self.log.end - self.real.start_offset} records are never delivered")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_share_partition_follows_the_model(seed: int) -> None:
    fuzz = Fuzz(seed)
    fuzz.run()
    assert fuzz.real.start_offset >= fuzz.log.end
