"""Compaction against a dict: random appends, transactions, crashes, and rounds with little or much memory."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.protocol.compression import Codec
from tests.log.compaction.support import MAP_BYTES, append, candidate_of, compact
from tests.log.support import ManualClock, everything, marker, open_at, surroundings

RETENTION_MS = 1000
TRANSACTIONAL = 7
IDEMPOTENT = 8

KEYS = st.sampled_from([b"a", b"bb", b"ccc", b"dddd", b"e" * 70])
VALUES = st.one_of(st.none(), st.binary(max_size=3), st.just(b"x" * 150))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=12)
CODECS = st.sampled_from(list(Codec))


@dataclass
class Stored:
    """A record that was appended at an offset."""

    key: bytes
    value: bytes | None
    timestamp: int
    fate: str


class CompactionModel(RuleBasedStateMachine):
    """Model of a log: every record that was appended, with the outcome of its transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kwire-compaction-"))
        self.clock = ManualClock()
        self.records: dict[int, Stored] = {}
        self.sequences = {TRANSACTIONAL: 0, IDEMPOTENT: 0}
        self.open_offsets: list[int] = []

    @initialize(segment_bytes=st.integers(3000, 6000), interval=st.integers(0, 500))
    def open(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(
            cleanup_policy=("compact",),
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=RETENTION_MS,
        )
        self.log = self.opened()

    def opened(self):
        return open_at(self.directory, self.config, surroundings(clock=self.clock))

    def store(self, pairs: list[tuple[bytes, bytes | None]], fate: str, **options: int) -> None:
        self.clock.now_ms += 1
        base = append(self.log, *pairs, timestamp=self.clock.now_ms, **options)
        for index, (key, value) in enumerate(pairs):
            self.records[base + index] = Stored(key, value, self.clock.now_ms + index, fate)
        if fate == "open":
            self.open_offsets += range(base, base + len(pairs))

    @rule(pairs=PAIRS, codec=CODECS)
    def plain(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.store(pairs, "committed", codec=codec)

    @rule(key=KEYS, count=st.integers(60, 200), size=st.integers(0, 3))
    def many_alike(self, key: bytes, count: int, size: int) -> None:
        self.store([(key, b"v" * size)] * min(count, 600 // (len(key) + size + 8)), "committed")

    @rule(pairs=PAIRS, codec=CODECS)
    def idempotent(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.store(pairs, "committed", codec=codec, producer_id=IDEMPOTENT, sequence=self.sequences[IDEMPOTENT])
        self.sequences[IDEMPOTENT] += len(pairs)

    @rule(pairs=PAIRS)
    def transactional(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        sequence = self.sequences[TRANSACTIONAL]
        self.store(pairs, "open", producer_id=TRANSACTIONAL, sequence=sequence, transactional=True)
        self.sequences[TRANSACTIONAL] += len(pairs)

    @precondition(lambda self: self.open_offsets)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        batch = marker(TRANSACTIONAL, 0, commit=commit)
        self.log.append(batch, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        for offset in self.open_offsets:
            self.records[offset].fate = "committed" if commit else "aborted"
        self.open_offsets.clear()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def time_passes(self) -> None:
        self.clock.now_ms += RETENTION_MS

    @rule()
    def crash(self) -> None:
        self.log.flush()
        clean_to = self.log.offsets.first_dirty
        self.log.close(clean=False)
        self.log = self.opened()
        self.log.offsets.first_dirty = clean_to

    @rule(map_bytes=st.sampled_from([300, MAP_BYTES, MAP_BYTES]))
    def compact(self, map_bytes: int) -> None:
        candidate = candidate_of(self.log, self.clock.now_ms)
        if candidate is None:
            return
        end = compact(self.log, now_ms=self.clock.now_ms, map_bytes=map_bytes)
        assert end is not None
        assert candidate.first_dirty_offset < end.end_offset <= candidate.upper_bound_offset
        present = set(self.survivors())
        assert present >= {offset for offset in self.records if offset >= candidate.upper_bound_offset}
        last = self.last_below(end.end_offset)
        for offset in range(end.end_offset):
            record = self.records.get(offset)
            if record is not None and (record.fate == "aborted" or last.get(record.key) != offset):
                assert offset not in present

    def last_below(self, end: int) -> dict[bytes, int]:
        """Return the last decided record of each key; undecided records are not below the end."""
        return {
            record.key: offset
            for offset, record in sorted(self.records.items())
            if offset < end and record.fate == "committed"
        }

    def survivors(self) -> dict[int, tuple[bytes | None, bytes | None, int]]:
        found = {record.offset: (record.key, record.value, record.timestamp) for record in everything(self.log)}
        return {offset: record for offset, record in found.items() if offset in self.records}

    @invariant()
    def nothing_is_made_up_and_every_last_value_is_there(self) -> None:
        if not self.records:
            return
        present = self.survivors()
        for offset, record in present.items():
            stored = self.records[offset]
            assert record == (stored.key, stored.value, stored.timestamp)
        for offset in self.last_below(self.log.log_end_offset).values():
            assert offset in present or self.records[offset].value is None
        assert set(self.open_offsets) <= set(present)

    @invariant()
    def producers_are_remembered(self) -> None:
        if self.sequences[IDEMPOTENT]:
            assert self.log.producers.entries[IDEMPOTENT].last_sequence == self.sequences[IDEMPOTENT] - 1

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)


TestCompactionModel = CompactionModel.TestCase
TestCompactionModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
