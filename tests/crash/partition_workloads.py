"""Workloads on one partition: random scripts, by seed, of the operations that a broker does on a log."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence

from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.future_logs import Copying
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from kwire.protocol.compression import Codec
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.records import Record, encode_batch
from kwire.seams import SystemRandomSource
from tests.crash.checks import files_of, problems_of
from tests.crash.disk import RecordingDisk, Tree
from tests.crash.ledger import Ledger
from tests.log.searching import aborted_transactions
from tests.log.support import NOW_MS, ManualClock, retain

DIRECTORY = "/kafka"
OTHER_DIRECTORY = "/other"
"""Directory to which a replica may move, and from which it may move back."""
KEY = ("orders", 0)
LIFETIME_MS = 3_600_000
CONFIG = LogConfig(
    segment_bytes=1400,
    index_interval_bytes=150,
    max_message_bytes=1400,
    retention_bytes=4000,
    file_delete_delay_ms=0,
    message_timestamp_after_max_ms=2**62,
)

APPENDS = {"append": 10, "flush": 3, "flush_meanwhile": 2, "roll": 1, "new_epoch": 1}
MOVES = {"append": 6, "idempotent": 5, "flush": 2, "new_epoch": 1, "roll": 1, "begin_move": 4, "copy": 8, "move": 4} | {
    "end_move": 1,
    "checkpoint": 2,
    "checkpoint_meanwhile": 1,
    "restart": 1,
    "kill": 1,
}
WEIGHTS: Mapping[str, Mapping[str, int]] = {
    "appends": APPENDS,
    "producers": {"idempotent": 10, "append": 2, "flush": 3, "flush_meanwhile": 1, "checkpoint": 2, "kill": 1},
    "transactions": {"transactional": 8, "marker": 6, "append": 2, "flush": 3, "checkpoint": 2, "kill": 1},
    "truncation": APPENDS | {"truncate": 4, "idempotent": 3, "checkpoint": 2},
    "retention": APPENDS | {"delete_records": 2, "retention": 3, "remove_files": 2, "checkpoint": 2},
    "restarts": APPENDS | {"idempotent": 4, "checkpoint": 3, "restart": 2, "kill": 2, "checkpoint_meanwhile": 1},
    "topics": APPENDS | {"recreate": 4, "delete_records": 1, "checkpoint": 3, "remove_files": 2, "kill": 1},
    "moves": MOVES | {"transactional": 4, "marker": 3, "truncate": 1, "recreate": 1},
    "moves_and_retention": MOVES | {"delete_records": 2, "retention": 2, "remove_files": 1, "truncate": 1},
    "everything": APPENDS
    | {"idempotent": 6, "transactional": 5, "marker": 4, "truncate": 1, "delete_records": 1, "retention": 1}
    | {"remove_files": 1, "checkpoint": 2, "restart": 1, "kill": 1, "recreate": 1, "checkpoint_meanwhile": 1},
}


class Script:
    """Random script; afterwards it checks the states after a power cut at any of its operations."""

    def __init__(self, name: str, seed: int, *, steps: int = 25) -> None:
        self._directories = (DIRECTORY, OTHER_DIRECTORY) if "move" in WEIGHTS[name] else (DIRECTORY,)
        self.start: Tree = {directory[1:]: {} for directory in self._directories}
        self._disk = RecordingDisk(self.start)
        self._copying: Copying | None = None
        self.operations = self._disk.operations
        self._ledger = Ledger(self.operations)
        self._random_source = random.Random(f"{name} {seed}")
        self._clock = ManualClock()
        self._world = Surroundings(disk=self._disk, clock=self._clock, random_source=SystemRandomSource(seed))
        self._epoch = 0
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()
        self._value = 0
        self._open_manager()
        self._create()
        weights = WEIGHTS[name]
        for action in self._random_source.choices(list(weights), list(weights.values()), k=steps):
            self._clock.now_ms += self._random_source.randrange(5)
            call: Callable[[], None] = getattr(self, f"_{action}")
            call()

    # --- open

    def _open_manager(self) -> None:
        self._manager = LogManager(self._directories, self._world)
        self._copying = None
        self._manager.load_all(lambda topic: CONFIG)

    def _create(self) -> None:
        topic_id = uuid.UUID(int=self._random_source.getrandbits(128))
        since = self._ledger.time
        self._ledger.creates(topic_id, since)
        self._log = self._manager.get_or_create(*KEY, CONFIG, topic_id)
        assert self._log.log_start_offset == self._log.log_end_offset == 0
        self._sequences, self._open, self._epoch = {}, set(), 0

    def _opened_again(self) -> None:
        self._open_manager()
        log = self._manager.get(*KEY)
        assert log is not None, "a restart without a power cut loses nothing"
        self._log = log
        branch = self._ledger.branch
        data = files_of(log, self._disk)
        assert branch.data.endswith(data), "a restart without a power cut loses nothing"
        assert log.log_end_offset == max(branch.end, log.log_start_offset)
        assert log.log_end_offset > 0 or not branch.batches

    # --- append

    def _records(self) -> list[Record]:
        random_source = self._random_source
        records = []
        for _ in range(random_source.choice((1, 1, 2, 3))):
            self._value += 1
            value = b"%d " % self._value + random_source.randbytes(random_source.choice((5, 40, 200, 350)))
            timestamp = self._clock.now_ms + random_source.randrange(-20, 20)
            records.append(Record(key=b"%d" % random_source.randrange(5), value=value, timestamp=timestamp))
        return records

    def _append_batch(self, data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        since = self._ledger.time
        log = self._log
        log.append(data, leader_epoch=self._epoch, origin=origin)
        self._ledger.appends(self._newest(log), since)

    def _newest(self, log: PartitionLog) -> bytes:
        written = next(
            operation
            for operation in reversed(self.operations)
            if operation.kind == "write" and len(operation.data) > 60
        )
        return written.data

    def _append(self) -> None:
        self._append_batch(encode_batch(self._records(), codec=self._random_source.choice(list(Codec))))

    def _idempotent(self) -> None:
        producer = self._random_source.choice((11, 12))
        self._produce(producer, transactional=False)

    def _transactional(self) -> None:
        producer = self._random_source.choice((21, 22, 23))
        self._open.add(producer)
        self._produce(producer, transactional=True)

    def _produce(self, producer: int, *, transactional: bool) -> None:
        records = self._records()
        sequence = self._next_sequence(producer)
        self._sequences[producer] = sequence + len(records)
        self._append_batch(
            encode_batch(
                records,
                codec=self._random_source.choice(list(Codec)),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def _next_sequence(self, producer: int) -> int:
        """Return the next sequence number of a producer.

        If only markers of the producer are above the log start, a reopened or truncated log has its epoch and no
        sequence number. Then it accepts only the first sequence number, as in Kafka.
        """
        log = self._log
        entry = log.producers.entries.get(producer)
        if entry is None or entry.batches:
            return self._sequences.get(producer, 0)
        kept = [batch for batch in self._ledger.branch.batches if batch.next > log.log_start_offset]
        assert all(batch.is_commit is not None for batch in kept if batch.producer_id == producer)
        return 0

    def _marker(self) -> None:
        if not self._open:
            return
        producer = self._random_source.choice(sorted(self._open))
        self._open.discard(producer)
        marker = EndTransactionMarker(is_commit=self._random_source.random() < 0.4, coordinator_epoch=0)
        self._append_batch(
            encode_marker_batch(marker, producer_id=producer, producer_epoch=0, timestamp=self._clock.now_ms),
            AppendOrigin.COORDINATOR,
        )

    def _roll(self) -> None:
        self._log.roll()

    def _new_epoch(self) -> None:
        self._epoch += 1
        self._log.assign_epoch_start(self._epoch, self._log.log_end_offset)

    # --- flush

    def _flush(self) -> None:
        self._log.flush()
        self._ledger.flushed(self._log.log_end_offset)

    def _flush_meanwhile(self) -> None:
        """Append records while a worker flushes."""
        end = self._log.log_end_offset
        job = self._log.begin_flush()
        self._append()
        job.run()
        self._append()
        self._log.finish_flush(job)
        self._ledger.flushed(end)

    def _checkpoint(self) -> None:
        self._manager.directories.checkpoint({KEY: self._log.log_end_offset})
        self._ledger.start_is_durable(self._log.log_start_offset)

    def _checkpoint_meanwhile(self) -> None:
        for job in self._manager.directories.begin_checkpoints({KEY: self._log.log_end_offset}):
            job.run()
            self._append()
            self._manager.directories.finish_checkpoint(job)

    # --- remove

    def _truncate(self) -> None:
        log = self._log
        bases = [batch.base for batch in self._ledger.branch.batches if batch.base >= log.log_start_offset]
        if not bases:
            return
        offset = self._random_source.choice(bases[-6:])
        since = self._ledger.time
        self._ledger.truncates(offset, since)
        if self._random_source.random() < 0.5:
            log.truncate_to(offset)
        else:  # as a follower truncates
            log.cut_to(offset)
            for _ in log.complete_truncation_in_steps():
                pass
            self._flush()
        assert log.log_end_offset == offset
        self._sequences = {
            producer: state[1] + 1
            for producer, state in self._ledger.branch.derived(len(self._ledger.branch.batches)).producers.items()
        }

    def _delete_records(self) -> None:
        log = self._log
        offset = self._random_source.randint(log.log_start_offset, log.log_end_offset)
        self._ledger.starts_at(offset, self._ledger.time)
        log.delete_records_before(offset)

    def _retention(self) -> None:
        log = self._log
        self._ledger.starts_at(log.log_end_offset, self._ledger.time)
        retain(self._manager)

    def _remove_files(self) -> None:
        self._manager.directories.remove_files(self._manager.directories.take_due_files())

    def _recreate(self) -> None:
        self._ledger.deletes(self._ledger.time)
        self._manager.delete(*KEY)
        self._copying = None
        self._ledger.deleted()
        self._create()

    # --- move to another log directory

    def _begin_move(self) -> None:
        if self._copying is None:
            home = self._manager.directories.directory_of(self._log)
            (away,) = (directory for directory in self._manager.directories if directory is not home)
            self._copying = self._manager.futures.begin(self._log, away)

    def _copy(self) -> None:
        if self._copying is not None:
            self._copying.step(self._random_source.choice((1, 500, 5000)))

    def _move(self) -> None:
        if self._copying is None:
            return
        while self._copying.step(1000):
            pass
        self._log = self._manager.futures.replace(self._log)
        self._copying = None
        self._ledger.flushed(self._log.log_end_offset)
        self._ledger.start_is_durable(self._log.log_start_offset)

    def _end_move(self) -> None:
        self._manager.futures.abandon(*KEY)
        self._copying = None

    # --- stop and kill

    def _restart(self) -> None:
        self._manager.close(clean=True, broker_epoch=7, high_watermarks={KEY: self._log.log_end_offset})
        self._ledger.flushed(self._log.log_end_offset)
        self._ledger.start_is_durable(self._log.log_start_offset)
        self._disk.kill()
        self._opened_again()

    def _kill(self) -> None:
        self._disk.kill()
        self._opened_again()

    # --- checks

    def check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        expected = self._ledger.at(at)
        log = opened(disk, self._directories).get(*KEY)
        problems = list(problems_of(log, expected, disk, probe=probe))
        if not problems and log is not None and probe % 4 == 0:
            problems += _opens_alike(log, disk, self._directories)
        return problems


def opened(disk: RecordingDisk, directories: Sequence[str] = (DIRECTORY,)) -> LogManager:
    """Recover the log as a broker does, some time later."""
    world = Surroundings(disk=disk, clock=ManualClock(NOW_MS + LIFETIME_MS), random_source=SystemRandomSource(1))
    manager = LogManager(directories, world)
    manager.load_all(lambda topic: CONFIG)
    return manager


def picture(log: PartitionLog, disk: RecordingDisk) -> dict[str, object]:
    """Return the whole state of the log.

    An epoch without records is left out. A producer whose batches are all below the log start may be forgotten: Kafka
    does not use the snapshots below it either.
    """
    return {
        "batches": files_of(log, disk),
        "offsets": (log.log_start_offset, log.log_end_offset, log.topic_id),
        "epochs": [entry for entry in log.leader_epochs.entries() if entry[1] < log.log_end_offset],
        "producers": sorted(
            (entry.producer_id, entry.producer_epoch, entry.last_sequence, entry.current_transaction_first_offset)
            for entry in log.producers.entries.values()
            if entry.last_data_offset >= log.log_start_offset
        ),
        "aborted": aborted_transactions(log, 0, log.log_end_offset),
    }


def _opens_alike(log: PartitionLog, disk: RecordingDisk, directories: Sequence[str]) -> list[str]:
    before = picture(log, disk)
    disk.kill()
    again = opened(disk, directories).get(*KEY)
    if again is None:
        return ["S5: opened once, the log does not open again"]
    after = picture(again, disk)
    return [
        f"S5: opened once the {name} are {before[name]!r}, opened twice {after[name]!r}"
        for name in before
        if before[name] != after[name]
    ]
