"""Allowed contents of a partition after a power cut, for each operation before which the power cut may happen.

A workload reports its appends, flushes, truncations and deletions to the ledger. The ledger records the operation of
the disk at which each began or completed. Batches are stored byte for byte; producers, aborted transactions and epochs
are derived from them here, independently of the broker's code.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from kwire.protocol.control_records import decode_marker
from kwire.protocol.records import CONTROL_FLAG, TRANSACTIONAL_FLAG, decode_batch, parse_header


class Stored(NamedTuple):
    """Batch as it is stored in the log."""

    base: int
    next: int
    data: bytes
    epoch: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    is_transactional: bool
    is_commit: bool | None
    """None for a data batch."""
    records: tuple[tuple[int, int], ...]
    """(offset, timestamp)."""


def stored(data: bytes) -> Stored:
    header = parse_header(data)
    marker = decode_marker(data) if header.attributes & CONTROL_FLAG else None
    return Stored(
        base=header.base_offset,
        next=header.next_offset,
        data=data,
        epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        last_sequence=header.last_sequence,
        is_transactional=bool(header.attributes & TRANSACTIONAL_FLAG),
        is_commit=None if marker is None else marker.is_commit,
        records=tuple((record.offset, record.timestamp) for record in decode_batch(data)),
    )


class Derived(NamedTuple):
    """State derived from the batches up to some offset."""

    producers: dict[int, tuple[int, int, int]]
    """Producer id -> (epoch, last sequence or -1, first offset of the open transaction or -1)."""
    last_offsets: dict[int, int]
    """Producer id -> offset of its last batch or marker."""
    aborted: list[tuple[int, int, int, int]]
    """(producer id, first offset, marker's offset, last stable offset)."""
    epochs: list[tuple[int, int]]
    """(epoch, start offset)."""


def derived(batches: Iterable[Stored]) -> Derived:
    out = Derived({}, {}, [], [])
    is_open: dict[int, int] = {}
    for batch in batches:
        if not out.epochs or out.epochs[-1][0] < batch.epoch:
            out.epochs.append((batch.epoch, batch.base))
        if batch.producer_id < 0:
            continue
        producer = batch.producer_id
        out.last_offsets[producer] = batch.next - 1
        if batch.is_commit is None:
            if batch.is_transactional:
                is_open.setdefault(producer, batch.base)
            sequence = batch.last_sequence
        else:
            first = is_open.pop(producer, None)
            if first is not None and not batch.is_commit:
                out.aborted.append((producer, first, batch.base, min(is_open.values(), default=batch.next)))
            before = out.producers.get(producer)
            sequence = before[1] if before is not None and before[0] == batch.producer_epoch else -1
        out.producers[producer] = (batch.producer_epoch, sequence, is_open.get(producer, -1))
    return out


class Branch:
    """Sequence of batches that a log has or had; every prefix of it is a state of that log."""

    def __init__(self, batches: Sequence[Stored] = ()) -> None:
        self.batches = tuple(batches)
        self._derived: dict[int, Derived] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].next if self.batches else 0

    @cached_property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    @cached_property
    def position_of(self) -> dict[int, int]:
        """Base offset -> position in data."""
        positions, position = {}, 0
        for batch in self.batches:
            positions[batch.base] = position
            position += len(batch.data)
        return positions

    @cached_property
    def index_at(self) -> dict[int, int]:
        """Position in data -> index of the batch that begins there, including the end."""
        found = {self.position_of[batch.base]: index for index, batch in enumerate(self.batches)}
        return found | {len(self.data): len(self.batches)}

    def derived(self, count: int) -> Derived:
        """Return the state derived from the first `count` batches."""
        if count not in self._derived:
            self._derived[count] = derived(self.batches[:count])
        return self._derived[count]

    def cut(self, offset: int) -> Branch:
        return Branch([batch for batch in self.batches if batch.next <= offset])


@dataclass(slots=True, kw_only=True)
class Life:
    """Topic with the partition's name, and the allowed contents of its log."""

    topic_id: uuid.UUID
    branches: list[Branch] = field(default_factory=lambda: [Branch()])
    """The last branch is the current one; the others were truncated and may return until the next flush."""
    durable_end: int = 0
    start_min: int = 0
    start_max: int = 0
    is_durable: bool = False
    """True if its directory must exist."""


@dataclass(slots=True, kw_only=True)
class Expectation:
    """Allowed contents at one time."""

    lives: list[Life] = field(default_factory=list)
    """The last life is the current one; a life that is being deleted precedes it."""
    may_be_missing: bool = True


class Ledger:
    """Allowed contents of one partition over time; the time is the length of `operations`, the disk's list."""

    def __init__(self, operations: Sequence[object]) -> None:
        self._operations = operations
        self._now = Expectation()
        self._history: list[tuple[int, Expectation]] = [(0, Expectation())]

    def at(self, operation: int) -> Expectation:
        """Return the allowed contents after a power cut before this operation."""
        found = self._history[0][1]
        for since, expectation in self._history:
            if since > operation:
                break
            found = expectation
        return found

    @property
    def branch(self) -> Branch:
        return self._now.lives[-1].branches[-1]

    def _note(self, *, since: int | None = None) -> None:
        """Record a change: a completed one counts from the next operation, one in progress from the operation after
        `since`.
        """
        lives = [replace(life, branches=list(life.branches)) for life in self._now.lives]
        copy = Expectation(lives=lives, may_be_missing=self._now.may_be_missing)
        self._history.append((len(self._operations) if since is None else since + 1, copy))

    @property
    def time(self) -> int:
        return len(self._operations)

    # --- reports of a workload

    def creates(self, topic_id: uuid.UUID, since: int) -> None:
        self._now.lives.append(Life(topic_id=topic_id))
        self._note(since=since)

    def appends(self, data: bytes, since: int) -> None:
        branches = self._now.lives[-1].branches
        branches[-1] = Branch([*branches[-1].batches, stored(data)])
        self._note(since=since)

    def flushed(self, end: int) -> None:
        life = self._now.lives[-1]
        life.branches = [life.branches[-1]]
        life.durable_end = max(life.durable_end, end)
        life.is_durable = True
        self._now.may_be_missing = False
        self._note()

    def truncates(self, offset: int, since: int, *, start_min: int | None = None) -> None:
        life = self._now.lives[-1]
        cut = life.branches[-1].cut(offset)
        life.branches.append(cut)
        life.durable_end = min(life.durable_end, cut.end)
        life.start_min = min(life.start_min, cut.end)
        self._note(since=since)

    def starts_at(self, offset: int, since: int) -> None:
        life = self._now.lives[-1]
        life.start_max = max(life.start_max, offset)
        self._note(since=since)

    def start_is_durable(self, offset: int) -> None:
        life = self._now.lives[-1]
        life.start_min = max(life.start_min, offset)
        self._note()

    def start_is(self, offset: int) -> None:
        """Report a new log start; a truncation below the start lowers it."""
        life = self._now.lives[-1]
        life.start_max = max(offset, life.start_max)
        life.start_min = min(offset, life.start_min)
        self._note()

    def replaced(self, topic_id: uuid.UUID, since: int) -> None:
        """Report that one topic replaced another of its name in one step; until it completes, either may be found."""
        self._now.lives.append(Life(topic_id=topic_id))
        self._note(since=since)
        self._now.lives = self._now.lives[-1:]
        self._note()

    def deletes(self, since: int) -> None:
        self._now.may_be_missing = True
        self._note(since=since)

    def deleted(self) -> None:
        self._now.lives = []
        self._note()
