"""Log of a follower against a model of its leader.

The leader's log has gaps, and unclean elections change its end. There are kills, clean stops and deleted records. The
cleaner and the scrubber run, and the log may be truncated in the middle of their work.

- content: each record is as the leader sent it last; a missing one has a later record of its key, and was compacted
- offsets: the log start and the log end equal the model's
- epochs: each batch has its leader epoch
- open: the log stays open, because no operation damages it
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, NamedTuple, cast

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.configs.settings import CurrentSettings
from kwire.log import scrubbing
from kwire.log.batch_validation import AppendOrigin
from kwire.log.compaction.plan import CleanedGroup, RoundEnd, RoundPlan
from kwire.log.config import LogConfig
from kwire.log.log_manager import LogManager
from kwire.log.lookup import end_offset_of
from kwire.log.partition_log import PartitionLog
from kwire.protocol.records import Record, decode_all, encode_batch
from kwire.server.compaction.cleaner import CleanerParts, LogCleaner
from kwire.server.compaction.rounds import InlineRounds
from tests.cluster.world import InlineWorkers
from tests.crash.disk import RecordingDisk
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.silence import silent
from tests.log.support import FixedChance, ManualClock, surroundings
from tests.virtual_loop import VirtualLoop

CONFIG: Final = LogConfig(
    cleanup_policy=("compact", "delete"),
    segment_bytes=600,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
    file_delete_delay_ms=0,
)
TOPIC_ID: Final = uuid.UUID(int=7)
GAP_MAX: Final = 30
READ_BYTES: Final = 700
STEP_BYTES: Final = 150
"""Bytes in a step of the scrubber: some batches."""
CLEANER_SETTINGS: Final = {
    "log.cleaner.dedupe.buffer.size": 1 << 20,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.max.bytes.per.second": 1e308,
    "log.cleaner.threads": 1,
}


class Sent(NamedTuple):
    """Batch as the leader sent it."""

    base_offset: int
    next_offset: int
    leader_epoch: int


class Rounds(InlineRounds):
    """Rounds that run a callback before each report."""

    between: Callable[[], None]

    async def run(self, plan: RoundPlan, bytes_per_second: float) -> AsyncGenerator[CleanedGroup | RoundEnd, None]:
        async for report in super().run(plan, bytes_per_second):
            self.between()
            yield report


class FollowerModel:
    """Model of a follower's log."""

    def __init__(self) -> None:
        self._silence = silent("kwire")
        self._silence.__enter__()
        self._step_bytes = scrubbing.STEP_BYTES
        scrubbing.STEP_BYTES = STEP_BYTES  # type: ignore[misc]
        self._loop = VirtualLoop()
        self._disk = RecordingDisk({"a": {}})
        self._clock = ManualClock()
        self._drawn = 0
        self._count = 0
        self._sent: list[Sent] = []
        self._records: dict[int, tuple[bytes, bytes | None]] = {}
        self._may_be_missing: set[int] = set()
        self._epoch = self._start_offset = self._end_offset = 0
        self._kept_start = 0
        """Log start of the last checkpoint, which a kill restores."""
        self._open()

    def _open(self) -> None:
        self._drawn += 1000
        world = surroundings(cast("Any", self._disk), self._clock, FixedChance(drawn=self._drawn))
        self._logs = LogManager(["/a"], world)
        self._logs.load_all(lambda _: CONFIG, lambda _: TOPIC_ID)
        self._log: PartitionLog = self._logs.get_or_create("t", 0, CONFIG, TOPIC_ID)
        self._rounds = Rounds(cast("Any", self._disk))
        self._cleaner = LogCleaner(
            CleanerParts(
                settings=CurrentSettings(default_settings() | CLEANER_SETTINGS),
                logs=self._logs,
                disk=cast("Any", self._disk),
                clock=self._clock,
                workers=cast("Any", InlineWorkers()),
                rounds=cast("Any", self._rounds),
                last_stable_offset_of=lambda log: log.log_end_offset,
            )
        )
        self._pass = scrubbing.one_pass(self._logs.logs(), self._logs.is_current)

    def close(self) -> None:
        self._logs.close(clean=False)
        self._loop.close()
        scrubbing.STEP_BYTES = self._step_bytes  # type: ignore[misc]
        self._silence.__exit__(None, None, None)

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b, operation.c)
        self._check()

    def finish(self) -> None:
        self.restart(1, 0, 0)
        self._check()

    # --- operations

    def append(self, a: int, b: int, c: int) -> None:
        """Append the leader's next batch; compaction may have removed offsets before it."""
        base_offset = max(self._end_offset, self._sent[-1].next_offset if self._sent else 0)
        base_offset += a % GAP_MAX if a % 5 == 0 else 0
        records = [self._new_record(base_offset + index, b + index) for index in range(1 + c % 3)]
        batch = encode_batch(
            records, base_offset=base_offset, partition_leader_epoch=self._epoch, producer_id=-1, keep_offsets=True
        )
        self._log.append(batch, leader_epoch=self._epoch, origin=AppendOrigin.REPLICATION)
        self._end_offset = base_offset + len(records)
        self._sent.append(Sent(base_offset, self._end_offset, self._epoch))
        self._records |= {record.offset: (record.key or b"", record.value) for record in records}

    def _new_record(self, offset: int, number: int) -> Record:
        self._count += 1
        value = None if number % 11 == 0 else b"%d" % self._count + b"." * (number % 40)
        return Record(key=b"k%d" % (number % 7), value=value, timestamp=self._clock.now_ms, offset=offset)

    def cut(self, a: int, b: int, c: int) -> None:
        """Truncate the log for the leader of a new epoch, which has fewer records."""
        self._epoch += 1
        if not self._sent:
            return
        offset = self._sent[-(1 + a % min(12, len(self._sent)))].base_offset + b % 2
        self._log.truncate_to(offset)
        self._sent = [batch for batch in self._sent if batch.next_offset <= offset]
        left = self._sent[-1].next_offset if self._sent else 0
        self._records = {key: record for key, record in self._records.items() if key < left}
        self._may_be_missing = {key for key in self._may_be_missing if key < left}
        end_offset = self._log.log_end_offset
        assert end_offset <= offset, f"offsets: the log ends at {end_offset}, and was cut at {offset}"
        self._end_offset = end_offset
        self._start_offset = min(self._start_offset, end_offset)
        self._kept_start = min(self._kept_start, end_offset)

    def delete_records(self, a: int, b: int, c: int) -> None:
        self._start_offset += a % (self._end_offset - self._start_offset + 1)
        self._log.delete_records_before(self._start_offset)

    def roll(self, a: int, b: int, c: int) -> None:
        self._log.roll()

    def flush(self, a: int, b: int, c: int) -> None:
        self._log.flush()

    def checkpoint(self, a: int, b: int, c: int) -> None:
        self._logs.directories.checkpoint({("t", 0): self._end_offset})
        self._kept_start = self._start_offset

    def restart(self, a: int, b: int, c: int) -> None:
        """Kill the broker, or stop it cleanly."""
        is_clean = a % 3 == 0
        self._logs.close(clean=is_clean)
        if is_clean:
            self._kept_start = self._start_offset
        self._open()
        if self._kept_start <= self._log.log_start_offset <= self._start_offset:
            self._start_offset = self._kept_start = self._log.log_start_offset

    def compact(self, a: int, b: int, c: int) -> None:
        """Run a compaction round; in its middle, another leader may cause a truncation and new appends."""
        self._log.flush()
        last = {key: offset for offset, (key, _) in sorted(self._records.items())}
        self._may_be_missing |= {
            offset for offset, (key, value) in self._records.items() if offset < last[key] or value is None
        }
        steps = iter([None] * (b % 3))

        def between() -> None:
            if a % 2 == 0 and next(steps, self) is self:
                self._rounds.between = lambda: None
                self._cut_and_go_on(b, c)

        self._rounds.between = between
        self._loop.run_until_complete(self._cleaner.clean_dirtiest())

    def scrub(self, a: int, b: int, c: int) -> None:
        """Run one step, or a whole pass of the scrubber; in its middle, another leader may cause a truncation."""
        if a % 3 == 0:
            self._pass = scrubbing.one_pass(self._logs.logs(), self._logs.is_current)
            for _ in range(1 + a % 4):
                next(self._pass, None)
            self._cut_and_go_on(b, c)
        next(self._pass, None)

    def retain(self, a: int, b: int, c: int) -> None:
        """Remove segments below the log start."""
        for log in list(self._logs.logs()):
            self._logs.apply_retention(log, self._end_offset)
        self._logs.directories.remove_files(self._logs.directories.take_due_files())

    def _cut_and_go_on(self, a: int, b: int) -> None:
        self.cut(a, b, 0)
        for number in range(b % 9):
            self.append(5 * number + 1, a + number, b)
        self._log.roll()

    # --- rules

    def _check(self) -> None:
        log = self._log
        assert log.failure is None, f"open: {log.failure}"
        marks = log.log_start_offset, log.log_end_offset
        assert marks == (self._start_offset, self._end_offset), (
            f"offsets: {marks}, for {self._start_offset} and {self._end_offset}"
        )
        found = self._read()
        wanted = {offset: record for offset, record in self._records.items() if offset >= self._start_offset}
        for offset, record in found.items():
            assert wanted.get(offset) == record, f"content: {record} at {offset}, for {wanted.get(offset)}"
        missing = wanted.keys() - found.keys() - self._may_be_missing
        assert not missing, f"content: {sorted(missing)} are missing"
        for batch in self._sent:
            if batch.base_offset in found:
                epoch = log.leader_epochs.epoch_of(batch.base_offset)
                assert epoch == batch.leader_epoch, f"epochs: {epoch} at {batch}"

    def _read(self) -> dict[int, tuple[bytes, bytes | None]]:
        found: dict[int, tuple[bytes, bytes | None]] = {}
        offset = self._log.log_start_offset
        while offset < self._log.log_end_offset and (data := bytes(self._log.read(offset, READ_BYTES))):
            for record in decode_all(data):
                if record.offset >= self._log.log_start_offset:
                    found[record.offset] = record.key or b"", record.value
            offset = end_offset_of(data)
        return found


FOLLOWER_FUZZER: Final = Fuzzer(
    "follower",
    FollowerModel,
    {
        "append": 24, "cut": 4, "delete_records": 2, "roll": 3, "flush": 3, "checkpoint": 3, "restart": 5,
        "compact": 4, "scrub": 8, "retain": 2,
    },
    steps=70,
    seeds=40,
)  # fmt: skip
