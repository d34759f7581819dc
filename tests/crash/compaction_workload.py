"""Workload on a compacted partition: keys are written repeatedly, and compaction rounds complete or are interrupted."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kwire.log.config import LogConfig
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from kwire.protocol.compression import Codec
from kwire.protocol.records import Record
from kwire.seams import SystemRandomSource
from tests.crash.disk import RecordingDisk, Tree
from tests.log.compaction.support import compact, keyed
from tests.log.support import NOW_MS, ManualClock, everything

DIRECTORY = "/kafka"
KEY = ("tables", 0)
KEYS = tuple(b"key %d" % number for number in range(6))
LATER_MS = 3_600_000
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=1200,
    index_interval_bytes=150,
    max_message_bytes=1200,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=0,
    file_delete_delay_ms=0,
    message_timestamp_after_max_ms=2**62,
)
WEIGHTS = {"append": 12, "produce": 4, "flush": 2, "roll": 2, "compact": 4, "checkpoint": 2, "remove_files": 2}
ENDS = {"kill": 1, "restart": 1}
STEPS = 28


@dataclass(slots=True, kw_only=True)
class Promise:
    """State that a recovery must find."""

    records: tuple[Record, ...] = ()
    """All appended records, by offset."""
    ends: frozenset[int] = frozenset({0})
    """End offsets of the batches."""
    durable_end: int = 0
    compacted_end: int = 0
    """Offset above which no record may be missing."""
    sequences: dict[int, dict[int, int]] = field(default_factory=dict)
    """Producer id -> end offset of a batch -> its last sequence number."""


class CompactionScript:
    """Random script on a compacted log."""

    def __init__(self, seed: int) -> None:
        self.start: Tree = {DIRECTORY[1:]: {}}
        self._disk = RecordingDisk(self.start)
        self.operations = self._disk.operations
        self._random_source = random.Random(f"compaction {seed}")
        self._clock = ManualClock()
        self._world = Surroundings(disk=self._disk, clock=self._clock, random_source=SystemRandomSource(seed))
        self._now = Promise()
        self._history: list[tuple[int, Promise]] = [(0, self._now)]
        self._topic_id = uuid.UUID(int=seed + 1)
        self._value = 0
        self._open()
        weights = WEIGHTS | ENDS
        for action in self._random_source.choices(list(weights), list(weights.values()), k=STEPS):
            self._clock.now_ms += 10
            call: Callable[[], None] = getattr(self, f"_{action}")
            call()

    def _note(self, now: Promise, *, since: int | None = None) -> None:
        self._now = now
        self._history.append((len(self.operations) if since is None else since + 1, now))

    def _open(self) -> None:
        self._manager = LogManager([DIRECTORY], self._world)
        self._manager.load_all(lambda topic: CONFIG)
        self._log = self._manager.get_or_create(*KEY, CONFIG, self._topic_id)
        assert self._log.log_end_offset == len(self._now.records)

    # --- actions

    def _append(self, producer: int = -1) -> None:
        random_source, now = self._random_source, self._now
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(random_source.choice((1, 1, 2, 4))):
            self._value += 1
            value = b"%d " % self._value + random_source.randbytes(random_source.choice((5, 100, 200)))
            pairs.append((random_source.choice(KEYS), None if random_source.random() < 0.15 else value))
        base = len(now.records)
        sequence = max(now.sequences.get(producer, {}).values(), default=-1) + 1 if producer >= 0 else -1
        batch = keyed(
            *pairs,
            timestamp=self._clock.now_ms,
            codec=random_source.choice(list(Codec)),
            producer_id=producer,
            sequence=sequence,
        )
        since, end = len(self.operations), base + len(pairs)
        assert self._log.append(batch, leader_epoch=0).base_offset == base
        records = tuple(
            Record(key=key, value=value, timestamp=self._clock.now_ms + index, offset=base + index)
            for index, (key, value) in enumerate(pairs)
        )
        sequences = dict(now.sequences)
        if producer >= 0:
            sequences[producer] = sequences.get(producer, {}) | {end: sequence + len(pairs) - 1}
        appended = replace(now, records=now.records + records, ends=now.ends | {end}, sequences=sequences)
        self._note(appended, since=since)

    def _produce(self) -> None:
        self._append(self._random_source.choice((11, 12)))

    def _flush(self) -> None:
        self._log.flush()
        self._note(replace(self._now, durable_end=self._log.log_end_offset))

    def _roll(self) -> None:
        self._log.roll()

    def _compact(self) -> None:
        self._flush()
        bound = self._log.segments.active.base_offset
        compacted = replace(self._now, compacted_end=max(self._now.compacted_end, bound))
        self._note(compacted, since=len(self.operations))
        compact(self._log, self._disk, now_ms=self._clock.now_ms)

    def _checkpoint(self) -> None:
        self._manager.directories.checkpoint({KEY: self._log.log_end_offset})

    def _remove_files(self) -> None:
        self._manager.directories.remove_files(self._manager.directories.take_due_files())

    def _kill(self) -> None:
        self._disk.kill()
        self._open()

    def _restart(self) -> None:
        self._manager.close(clean=True, broker_epoch=3)
        self._note(replace(self._now, durable_end=self._log.log_end_offset))
        self._disk.kill()
        self._open()

    # --- checks

    def check(self, disk: RecordingDisk, at: int, probe: int) -> list[str]:
        promise = [promise for since, promise in self._history if since <= at][-1]
        log = opened(disk)
        if log is None:
            return ["S4: the partition is not there or did not open"] if promise.durable_end else []
        problems = list(_problems(log, promise, disk))
        if not problems and probe % 4 == 0:
            before = _picture(log)
            disk.kill()
            again = opened(disk)
            if again is None or _picture(again) != before:
                problems.append("S5: opening twice is not opening once")
        return problems


def opened(disk: RecordingDisk) -> PartitionLog | None:
    world = Surroundings(disk=disk, clock=ManualClock(NOW_MS + LATER_MS), random_source=SystemRandomSource(1))
    manager = LogManager([DIRECTORY], world)
    manager.load_all(lambda topic: CONFIG)
    return manager.get(*KEY)


def _picture(log: PartitionLog) -> object:
    producers = sorted((entry.producer_id, entry.last_sequence) for entry in log.producers.entries.values())
    return log.log_end_offset, [(record.offset, record.value) for record in everything(log)], producers


def _problems(log: PartitionLog, promise: Promise, disk: RecordingDisk) -> Iterator[str]:
    end = log.log_end_offset
    if end not in promise.ends or end < promise.durable_end:
        yield f"S4: the log ends at {end}, durable was {promise.durable_end}, batches end at {sorted(promise.ends)}"
        return
    found = everything(log)
    offsets = [record.offset for record in found]
    if offsets != sorted(set(offsets)):
        yield f"S3: offsets are {offsets}"
    for record in found:
        appended = promise.records[record.offset]
        if (record.key, record.value, record.timestamp) != (appended.key, appended.value, appended.timestamp):
            yield f"S4: the record at {record.offset} is not the one that was appended"
    missing = set(range(promise.compacted_end, end)) - set(offsets)
    if missing:
        yield f"S13: {sorted(missing)} are missing, although compaction never came there"
    last_found = {record.key: record.offset for record in found}
    last_appended = {record.key: record for record in promise.records[:end]}
    for key, appended in last_appended.items():
        kept = last_found.get(key)
        if kept != appended.offset and not (appended.value is None and kept is None):
            yield f"S13: of {key!r} the newest record is at {appended.offset}, what is left of it is at {kept}"
    for producer, batches in promise.sequences.items():
        expected = max((sequence for at, sequence in batches.items() if at <= end), default=-1)
        entry = log.producers.entries.get(producer)
        if expected >= 0 and (entry is None or entry.last_sequence != expected):
            yield f"S8: the last sequence number of producer {producer} should be {expected}"
    left = [name for name in disk.list(log.directory) if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
    if left:
        yield f"S13: {left} are left"
