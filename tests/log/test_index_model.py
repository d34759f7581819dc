"""The three indexes against a scan of the files, with random appends, truncations, restarts and damage."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.compression import Codec
from kwire.protocol.control_records import ControlRecordType, control_record_type
from kwire.protocol.records import BatchHeader, Record, decode_batch, encode_batch, iterate_headers
from tests.log.searching import aborted_transactions, max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, ManualClock, marker, open_at, surroundings

Scanned = tuple[int, int, BatchHeader, list[Record]]
"""(base offset of the segment, position in it, header, records)."""

PRODUCERS = st.integers(1, 3)
STAMPS = st.lists(st.integers(-30, 30), min_size=1, max_size=4)


class IndexModel(RuleBasedStateMachine):
    """Model test: the log's answers are compared with the contents of its .log files."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kwire-indexes-"))
        self.clock = ManualClock()

    @initialize(
        segment_bytes=st.integers(800, 4000),
        interval=st.integers(0, 300),
        batches=st.lists(STAMPS, min_size=4, max_size=30),
    )
    def open(self, segment_bytes: int, interval: int, batches: list[list[int]]) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.log = self.opened(clean=False)
        for index, stamps in enumerate(batches):
            self.append([stamps], Codec.NONE)
            if index % 4 == 1:
                self.append_in_transaction([stamps], 1)
            elif index % 4 == 3:
                self.end_transaction(1, commit=False)

    def opened(self, *, clean: bool):
        return open_at(self.directory, self.config, surroundings(clock=self.clock), clean=clean)

    def encoded(self, stamps: list[int], codec: Codec, producer: int) -> bytearray:
        self.clock.now_ms += 1
        records = [Record(value=b"value", timestamp=self.clock.now_ms + stamp) for stamp in stamps]
        if producer < 0:
            return encode_batch(records, codec=codec)
        entry = self.log.producers.entries.get(producer)
        sequence = 0 if entry is None else entry.last_sequence + 1
        return encode_batch(
            records, codec=codec, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    @rule(batches=st.lists(STAMPS, min_size=1, max_size=8), codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]))
    def append(self, batches: list[list[int]], codec: Codec) -> None:
        for stamps in batches:
            self.log.append(self.encoded(stamps, codec, -1), leader_epoch=0)

    @rule(batches=st.lists(STAMPS, min_size=1, max_size=3), producer=PRODUCERS)
    def append_in_transaction(self, batches: list[list[int]], producer: int) -> None:
        for stamps in batches:
            self.log.append(self.encoded(stamps, Codec.NONE, producer), leader_epoch=0)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        self.log.append(marker(producer, 0, commit=commit), leader_epoch=0, origin=AppendOrigin.COORDINATOR)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(back=st.one_of(st.integers(0, 5), st.integers(0, 50)))
    def truncate(self, back: int) -> None:
        self.log.truncate_to(max(0, self.log.log_end_offset - back))
        assert aborted_transactions(self.log, 0, self.log.log_end_offset) == self.aborted()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.log.close(clean=clean)
        self.log = self.opened(clean=clean)

    @rule(
        suffix=st.sampled_from([".index", ".timeindex", ".txnindex"]),
        entries=st.one_of(st.none(), st.lists(st.integers(0, 400), max_size=6, unique=True).map(sorted)),
    )
    def crash(self, suffix: str, entries: list[int] | None) -> None:
        """Crash: index files of one kind are lost, or are replaced by valid files of another log."""
        self.log.close(clean=False)
        for path in self.directory.glob(f"*{suffix}"):
            if entries is None:
                path.unlink()
            elif suffix == ".index":
                path.write_bytes(b"".join(struct.pack(">ii", entry // 50, entry) for entry in entries))
            elif suffix == ".timeindex":
                path.write_bytes(b"".join(struct.pack(">qi", NOW_MS + entry, entry // 20) for entry in entries))
            else:
                path.write_bytes(b"".join(struct.pack(">hqqqq", 0, 1, entry, entry, entry) for entry in entries))
        self.log = self.opened(clean=False)

    # Answers

    def scanned(self) -> Iterator[Scanned]:
        for path in sorted(self.directory.glob("*.log")):
            data = path.read_bytes()
            for position, header in iterate_headers(data):
                yield int(path.stem), position, header, decode_batch(data, position)

    @rule(data=st.data())
    def find_by_offset(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.log_end_offset))
        limit = data.draw(st.integers(offset, self.log.log_end_offset))
        found = [
            header.base_offset for _, header in iterate_headers(self.log.read(offset, 1 << 20, limit_offset=limit))
        ]
        expected = [
            (segment, header.base_offset)
            for segment, _, header, _ in self.scanned()
            if offset < header.next_offset <= limit and offset < limit
        ]
        first = expected[0][0] if expected else -1
        assert found == [base for segment, base in expected if segment == first]

    @rule(lag=st.integers(-60, 31))
    def find_by_time(self, lag: int) -> None:
        wanted = self.clock.now_ms + lag
        records = [record for *_, records in self.scanned() for record in records]
        expected = next((record for record in records if record.timestamp >= wanted), None)
        found = offset_for_timestamp(self.log, wanted)
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @rule()
    def find_the_largest_time(self) -> None:
        records = [record for *_, records in self.scanned() for record in records]
        expected = max(records, key=lambda record: record.timestamp, default=None)
        found = max_timestamp_offset(self.log)
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @rule(data=st.data())
    def find_aborted(self, data: st.DataObject) -> None:
        aborted = self.aborted()
        # Reads that begin or end next to the first or last record of a transaction are the error-prone ones.
        edges = {offset + step for entry in aborted for offset in entry[1:3] for step in (-1, 0, 1)}
        offsets = sorted(offset for offset in {0, *edges, self.log.log_end_offset} if offset >= 0)
        start = data.draw(st.sampled_from(offsets))
        for until in [offset for offset in offsets if offset >= start]:
            expected = [entry for entry in aborted if entry.last_offset >= start and entry.first_offset < until]
            assert aborted_transactions(self.log, start, until) == expected

    def aborted(self) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        begun: dict[int, int] = {}
        for _, _, header, records in self.scanned():
            if not header.is_control:
                if header.is_transactional:
                    begun.setdefault(header.producer_id, header.base_offset)
                continue
            first = begun.pop(header.producer_id, None)
            if first is not None and control_record_type(records[0].key) == ControlRecordType.ABORT:
                stable = min(begun.values(), default=header.next_offset)
                found.append(AbortedTransaction(header.producer_id, first, header.base_offset, stable))
        return found

    @invariant()
    def entries_name_batches(self) -> None:
        if not hasattr(self, "log"):
            return
        largest: dict[int, dict[int, int]] = {}
        batches: dict[int, dict[int, int]] = {}
        for segment, position, header, _ in self.scanned():
            before = max(largest.get(segment, {0: -1}).values())
            largest.setdefault(segment, {})[header.last_offset] = max(before, header.max_timestamp)
            batches.setdefault(segment, {})[position] = header.last_offset
        for found in self.log.segments:
            if not found.is_loaded:
                continue
            for offset, position in found.offset_index.entries():
                assert batches[found.base_offset].get(position) == offset
            for timestamp, offset in found.time_index.entries():
                assert largest[found.base_offset].get(offset) == timestamp

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)


IndexModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestIndexModel = IndexModel.TestCase
