"""Log directories with one damaged file at a time, and all answers of their logs.

A damaged directory may give the same answers as the sound one, or reject. After a crash, it may also have lost data
above the recovery point. It must never answer anything else.
"""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kwire.log.checkpoints import LOG_START_FILE
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.files import DELETED_SUFFIX
from kwire.log.inspection.directory_check import DirectoryCheck
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from kwire.protocol.control_records import decode_marker
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import CONTROL_FLAG, MAGIC_POSITION, TRANSACTIONAL_FLAG, decode_all, iterate_headers
from tests.log.random_directories import KINDS, LAST_EPOCH, Writer, random_config
from tests.log.searching import aborted_transactions, max_timestamp_offset, offset_for_timestamp
from tests.log.support import ManualClock, batch, surroundings

REJECTED: Final = "rejected"
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE.name
EPOCH_POSITION: Final = 12
"""Position of a batch's leader epoch, between its length and its magic."""
TOPICS: Final = ("plain", "codecs", "cut", "compact")
"""Kinds of tests/log/random_directories.py; each has one partition."""
BLOCK_BYTES: Final = 512


@dataclass(slots=True, kw_only=True)
class Scene:
    """A log directory, as a clean stop or a kill left it, and the answers of its logs."""

    directory: Path
    is_clean: bool
    settings: dict[str, Any]
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    recovery_points: dict[str, int] = field(default_factory=dict)
    questions: dict[str, Questions] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def make(cls, scratch: Path, seed: int, *, is_clean: bool, steps: int = 90) -> Scene:
        """Create the scene of a seed."""
        random_source = random.Random(seed)
        settings = {topic: random_config(KINDS[topic], random_source) for topic in TOPICS}
        scene = cls(directory=scratch / "sound", is_clean=is_clean, settings=settings)
        clock = ManualClock()
        manager = LogManager([str(scene.directory)], surroundings(clock=clock))
        for topic in TOPICS:
            scene.topic_ids[topic] = uuid.UUID(int=random_source.getrandbits(128))
            log = manager.get_or_create(topic, 0, settings[topic], scene.topic_ids[topic])
            writer = Writer(log, KINDS[topic], clock, random_source)
            writer.fill(steps)
            log.flush()
            manager.directories.remove_files([path for pending in writer.pending for path in pending.paths])
        manager.directories.checkpoint({})
        for topic in () if is_clean else TOPICS:
            for _ in range(6):
                _log(manager, topic).append(batch(b"late", timestamp=clock.now_ms), leader_epoch=LAST_EPOCH)
        scene.recovery_points = {topic: _log(manager, topic).recovery_point for topic in TOPICS}
        manager.close(clean=is_clean)
        scene._note_answers(scratch / "asked", random_source)
        return scene

    def _note_answers(self, copy: Path, random_source: random.Random) -> None:
        shutil.copytree(self.directory, copy)
        with opened(copy, self) as manager:
            for topic in TOPICS:
                log = _log(manager, topic)
                self.questions[topic] = Questions.draw(log, random_source)
                self.answers[topic] = self.questions[topic].ask(log)
        shutil.rmtree(copy)

    def files(self) -> list[Path]:
        """Return the paths of files that are not empty, relative to the directory."""
        found = (path for path in sorted(self.directory.rglob("*")) if path.is_file() and path.suffix != DELETED_SUFFIX)
        return [path.relative_to(self.directory) for path in found if path.stat().st_size]

    def problems_of(self, damaged: Path) -> list[str]:
        """Return the wrong answers of a broker that opens a damaged copy."""
        said = []
        with opened(damaged, self) as manager:
            for topic in TOPICS:
                log = manager.get(topic, 0)
                answers = {} if log is None else self.questions[topic].ask(log)
                said += [f"{topic}: {problem}" for problem in self._differences(topic, answers)]
        return said

    def _differences(self, topic: str, answers: dict[str, Any]) -> Iterator[str]:
        expected = self.answers[topic]
        if not self.is_clean and answers.get("log end", -1) != expected["log end"]:
            yield from self._beyond_a_prefix(topic, answers)
            return
        for name, answer in answers.items():
            if (
                answer == OUT_OF_RANGE
                and isinstance(expected[name], list)
                and answers["records"] == expected["records"]
            ):
                # Without its checkpoint, a log may start at its first record, although compaction removed lower
                # offsets.
                continue
            if answer != REJECTED and answer != expected[name]:
                yield f"{name}: {_short(answer, expected[name])}"

    def _beyond_a_prefix(self, topic: str, answers: dict[str, Any]) -> Iterator[str]:
        """Check a prefix: a crash may have lost data above the recovery point, and damage there looks the same."""
        end, records = answers.get("log end", REJECTED), answers.get("records", REJECTED)
        if end == REJECTED or records == REJECTED:
            return
        if not self.recovery_points[topic] <= end <= self.answers[topic]["log end"]:
            yield f"ends at {end}, though {self.recovery_points[topic]} was durable"
        if records != self.answers[topic]["records"][: len(records)]:
            yield "its records are no prefix"


class opened:  # noqa: N801 used like a function
    """Context manager with the logs of a directory, opened as a broker does; none if the directory is rejected."""

    def __init__(self, directory: Path, scene: Scene) -> None:
        self._world: Surroundings = surroundings()
        self._manager = LogManager([str(directory)], self._world)
        self._manager.load_all(lambda topic: scene.settings[topic])

    def __enter__(self) -> LogManager:
        return self._manager

    def __exit__(self, *_: object) -> None:
        self._manager.close(clean=False)


def _log(manager: LogManager, topic: str) -> PartitionLog:
    log = manager.get(topic, 0)
    assert log is not None
    return log


@dataclass(slots=True, kw_only=True)
class Questions:
    """Queries on one log: everything once, and some queries at random offsets."""

    offsets: list[int]
    timestamps: list[int]
    ranges: list[tuple[int, int]]

    @classmethod
    def draw(cls, log: PartitionLog, random_source: random.Random) -> Questions:
        start, end = log.log_start_offset, log.log_end_offset
        timestamps = [record[1] for record in _records(log)]
        offsets = [random_source.randrange(start, end) for _ in range(12)]
        return cls(
            offsets=offsets,
            timestamps=[random_source.choice(timestamps) + random_source.choice((0, 0, 1)) for _ in range(12)],
            ranges=[(offset, end) for offset in (start, *offsets)],
        )

    def ask(self, log: PartitionLog) -> dict[str, Any]:
        """Return answers by query. Queries at random offsets run first, before anything was read."""
        answers: dict[str, Any] = {}

        def ask(name: str, call: Callable[[], Any]) -> None:
            try:
                answers[name] = call()
            except (CorruptLogError, DiskFailure):
                answers[name] = REJECTED
            except KafkaError as error:
                answers[name] = REJECTED if error.code == ErrorCode.KAFKA_STORAGE_ERROR else error.code.name

        ask("log end", lambda: log.log_end_offset)
        for at in self.offsets:
            ask(f"first batch at {at}", lambda at=at: _first_batch(log, at))  # type: ignore[misc]
        for at in self.timestamps:
            ask(f"offset by time {at}", lambda at=at: offset_for_timestamp(log, at))  # type: ignore[misc]
        ask("largest timestamp", lambda: max_timestamp_offset(log))
        for start, end in self.ranges:
            ask(f"committed in {start}..{end}", lambda at=(start, end): _committed(log, *at))  # type: ignore[misc]
        ask("records", lambda: _records(log))
        ask("headers", lambda: _headers(log))
        if log.failure is None:
            ask("epochs", lambda: _epochs(log))
            ask("producers", lambda: _producers(log))
        return answers


def _first_batch(log: PartitionLog, offset: int) -> Any:
    data = log.read(offset, 1)
    return [header.values() for _, header in iterate_headers(data)]


def _pieces(log: PartitionLog) -> Iterator[bytes]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 3000)
        if not data:
            return
        yield data
        offset = [header for _, header in iterate_headers(data)][-1].next_offset


def _records(log: PartitionLog) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for data in _pieces(log)
        for record in decode_all(data)
    ]


def _headers(log: PartitionLog) -> list[Any]:
    return [header.values() for data in _pieces(log) for _, header in iterate_headers(data)]


def _committed(log: PartitionLog, start: int, end: int) -> list[int]:
    """Return the offsets that a read_committed consumer sees; the filter is the one that clients use."""
    data = log.read(start, 4000, limit_offset=end)
    headers = [header for _, header in iterate_headers(data)]
    if not headers:
        return []
    waiting = sorted(aborted_transactions(log, start, headers[-1].next_offset), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    seen: list[int] = []
    for position, header in iterate_headers(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        batch = data[position : position + header.size_in_bytes]
        if header.attributes & CONTROL_FLAG:
            marker = decode_marker(batch)
            if marker is not None and not marker.is_commit:
                aborted.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL_FLAG and header.producer_id in aborted):
            seen += [record.offset for record in decode_all(batch) if record.offset >= start]
    return seen


def _epochs(log: PartitionLog) -> dict[int, int]:
    """Return the epochs of the records in the latest epoch; older epochs may be forgotten."""
    epochs = {record[0]: log.leader_epochs.epoch_of(record[0]) for record in _records(log)}
    latest = max(epochs.values(), default=-1)
    return {offset: epoch for offset, epoch in epochs.items() if epoch == latest}


def _producers(log: PartitionLog) -> Any:
    return {
        producer_id: (
            entry.producer_epoch,
            entry.current_transaction_first_offset,
            [(last.last_sequence, last.last_offset, last.offset_delta) for last in list(entry.batches)[-1:]],
        )
        for producer_id, entry in log.producers.entries.items()
    }


def _short(answer: Any, expected: Any) -> str:
    if isinstance(answer, list) and isinstance(expected, list):
        at = next((at for at, pair in enumerate(zip(answer, expected, strict=False)) if pair[0] != pair[1]), -1)
        if at >= 0:
            return f"item {at} is {answer[at]!r:.200}, not {expected[at]!r:.200}"
        return f"{len(answer)} items, not {len(expected)}"
    if isinstance(answer, dict) and isinstance(expected, dict):
        keys = [key for key in answer.keys() | expected.keys() if answer.get(key) != expected.get(key)]
        answer, expected = ({key: each.get(key) for key in keys} for each in (answer, expected))
    return f"{answer!r:.200}, not {expected!r:.200}"


# Damage


@dataclass(slots=True, kw_only=True, frozen=True)
class Damage:
    """Damage to one file."""

    path: Path
    kind: str
    """Kind of damage: flip, zeros or cut."""
    position: int
    bit: int = 0

    @classmethod
    def draw(cls, scene: Scene, random_source: random.Random, files: list[Path] | None = None) -> Damage:
        """Draw a damage; each kind of file is equally likely, whatever their number and size."""
        by_kind: dict[str, list[Path]] = {}
        for path in files or scene.files():
            by_kind.setdefault(path.suffix or path.name, []).append(path)
        path = random_source.choice(by_kind[random_source.choice(sorted(by_kind))])
        kind = random_source.choices(("flip", "zeros", "cut"), (8, 1, 1))[0]
        size = (scene.directory / path).stat().st_size
        return cls(path=path, kind=kind, position=random_source.randrange(size), bit=random_source.randrange(8))

    def apply(self, directory: Path) -> None:
        file = directory / self.path
        data = bytearray(file.read_bytes())
        if self.kind == "flip":
            data[self.position] ^= 1 << self.bit
        elif self.kind == "zeros":
            start = self.position // BLOCK_BYTES * BLOCK_BYTES
            end = min(start + BLOCK_BYTES, len(data))
            data[start:end] = bytes(end - start)
        else:
            del data[self.position :]
        file.write_bytes(data)

    def __str__(self) -> str:
        return f"{self.kind} of {self.path} at {self.position}.{self.bit}"

    def is_covered(self, scene: Scene) -> bool:
        """False if no other data in the directory duplicates the damaged bytes (docs/log-tools.md lists these cases).

        Only `kwire log verify` detects wrong numbers in leader-epoch-checkpoint, and lower ones in
        log-start-offset-checkpoint. After a crash, the log start has no copy outside its checkpoint; the same holds for
        the base offset of the last batch above the recovery point. The epochs of batches in a compacted log have no
        copy either. In other logs, the last batch of a segment has no following batch that its epoch must match.
        """
        if self.path.name in ("leader-epoch-checkpoint", LOG_START_FILE):
            return False
        if self.path.suffix == ".txnindex" and self.kind == "cut":
            return False
        if self.path.suffix != ".log":
            return True
        topic = self.path.parent.name.rpartition("-")[0]
        if self._is_within(scene, begin=EPOCH_POSITION, last_only=topic != "compact"):
            return False
        return scene.is_clean or not self._is_within(scene, begin=0, least_offset=scene.recovery_points[topic])

    def _is_within(self, scene: Scene, *, begin: int, least_offset: int = 0, last_only: bool = False) -> bool:
        """True if the damage is before the magic of a batch with these offsets, in its offset, length or epoch."""
        batches = list(iterate_headers((scene.directory / self.path).read_bytes()))
        return any(
            header.base_offset >= least_offset and position + begin <= self.position < position + MAGIC_POSITION
            for position, header in (batches[-1:] if last_only else batches)
        )


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Outcome of one damage."""

    problems: list[str]
    was_found: bool
    """True if kwire log verify found the damage."""


def judge(scene: Scene, damage: Damage, scratch: Path) -> Verdict:
    """Damage a copy of the scene, inspect it, open it and run all queries."""
    copy = scratch / "damaged"
    shutil.copytree(scene.directory, copy)
    try:
        damage.apply(copy)
        found = any(finding.is_wrong for finding in DirectoryCheck(str(copy), lambda size: None).run())
        return Verdict(problems=scene.problems_of(copy), was_found=found)
    finally:
        shutil.rmtree(copy)
