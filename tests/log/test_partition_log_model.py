"""A partition log against a list: random appends, truncations, restarts and reads."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.log.config import LogConfig
from kwire.protocol.compression import Codec
from kwire.protocol.records import decode_all, iterate_headers
from tests.log.searching import offset_for_timestamp
from tests.log.support import ManualClock, batch, open_at, surroundings


class LogModel(RuleBasedStateMachine):
    """Model of a log: (base offset, values, timestamp) of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kwire-log-"))
        self.clock = ManualClock()
        self.batches: list[tuple[int, list[bytes], int]] = []
        self.start = 0
        self.epoch = 0
        self.counter = 0

    @initialize(segment_bytes=st.integers(600, 2500), interval=st.integers(0, 500))
    def open(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, file_delete_delay_ms=0)
        self.log = self.opened(clean=False)

    def opened(self, *, clean: bool):
        world = surroundings(clock=self.clock)
        return open_at(self.directory, self.config, world, clean=clean, log_start_offset=self.start)

    @property
    def end(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else self.start

    @rule(count=st.integers(1, 5), size=st.integers(0, 60), lag=st.integers(0, 50), codec=st.sampled_from(list(Codec)))
    def append(self, count: int, size: int, lag: int, codec: Codec) -> None:
        self.clock.now_ms += 1
        self.counter += 1
        values = [b"%d.%d." % (self.counter, index) + b"x" * size for index in range(count)]
        timestamp = self.clock.now_ms - lag
        end = self.log.log_end_offset
        result = self.log.append(batch(*values, timestamp=timestamp, codec=codec), leader_epoch=self.epoch)
        assert (result.base_offset, result.last_offset) == (end, end + count - 1)
        self.batches.append((end, values, timestamp))

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.unflushed_records == 0

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        # An epoch that begins at the log end has no record, and a restart forgets it.
        end = self.log.log_end_offset
        epochs = [entry for entry in self.log.leader_epochs.entries() if entry[1] < end]
        self.log.close(clean=clean)
        self.log = self.opened(clean=clean)
        assert set(epochs) <= set(self.log.leader_epochs.entries())

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.log.log_end_offset))
        self.log.truncate_to(offset)
        while self.batches and self.batches[-1][0] + len(self.batches[-1][1]) > offset:
            self.batches.pop()
        if self.log.log_end_offset < self.start:  # the batch that contains the log start was removed whole
            self.start = self.log.log_start_offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.log.log_end_offset))
        self.log.delete_records_before(self.start)

    @rule()
    def retention(self) -> None:
        self.log.apply_retention(self.clock.now_ms, self.log.log_end_offset)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule(data=st.data(), max_bytes=st.integers(1, 3000), min_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.log.log_end_offset))
        limit = data.draw(st.integers(self.start, self.log.log_end_offset + 1))
        found = self.log.read(offset, max_bytes, limit_offset=limit, min_one_batch=min_one)
        headers = [header for _, header in iterate_headers(found)]
        assert sum(header.size_in_bytes for header in headers) == len(found)
        assert len(found) <= max_bytes or (min_one and len(headers) == 1)
        expected = [base for base, values, _ in self.batches if offset < base + len(values) <= limit]
        bases = [header.base_offset for header in headers]
        assert bases == expected[: len(bases)]
        if expected and offset < limit and min_one:
            assert bases
        stored = {base: values for base, values, _ in self.batches}
        assert [record.value for record in decode_all(found)] == [value for base in bases for value in stored[base]]

    @rule(lag=st.integers(-60, 5))
    def find_by_time(self, lag: int) -> None:
        timestamp = self.clock.now_ms + lag
        expected = next(
            (
                max(base, self.start)
                for base, values, at in self.batches
                if at >= timestamp and base + len(values) > self.start
            ),
            None,
        )
        found = offset_for_timestamp(self.log, timestamp)
        assert (None if found is None else found.offset) == expected

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_start_offset == min(self.start, self.log.log_end_offset)
            if self.batches:
                assert self.log.log_end_offset == self.end
            assert self.log.recovery_point <= self.log.log_end_offset

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)


LogModel.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestLogModel = LogModel.TestCase
