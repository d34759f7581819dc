"""Partitions of a broker and their logs against a model: topics that are created, deleted and created again with the
same name, restarts, two log directories, moves between them, and damage to flushed data.

- content: a log has exactly the records appended to this topic, at their offsets, from its log start on
- offsets: log start <= high watermark <= log end, and none of them decreases
- open: an undamaged log is open; a damaged one serves no wrong byte
- again: a topic that is created again after its deletion is empty and open, whatever its old log was
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.cluster.configs.broker import default_settings
from kwire.cluster.metadata.image import MetadataImage, TopicImage
from kwire.cluster.metadata.metadata_delta import MetadataDelta
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.partitions.partition_listener import PartitionListener
from kwire.cluster.partitions.partitions import Partitions
from kwire.log.errors import CorruptLogError
from kwire.log.log_manager import LogManager
from kwire.log.recovery import Surroundings
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import decode_all
from tests.coordinator.world import BROKER_ID, no_group_commit, topic_image
from tests.crash.disk import RecordingDisk
from tests.fuzz.fuzzing import Fuzzer, Operation
from tests.fuzz.silence import silent
from tests.log.support import FixedChance, ManualClock, batch
from tests.support.metadata import Alone

NAMES: Final = ("t", "u", "v")
DIRECTORIES: Final = ("/a", "/b")
RECORD_BYTES: Final = 12
"""Fewer bytes than the smallest record has."""
READ_BYTES: Final = 1 << 20


@dataclass
class Known:
    """Topic of one partition in the model."""

    image: TopicImage
    values: list[bytes] = field(default_factory=list)
    log_start: int = 0
    kept_start: int = 0
    """Log start of the last checkpoint, which a crash restores."""
    is_damaged: bool = False


class LogModel:
    """Model of a broker's logs."""

    def __init__(self) -> None:
        self._silence = silent("kwire")
        self._silence.__enter__()
        self._disk = RecordingDisk({name[1:]: {} for name in DIRECTORIES})
        self._clock = ManualClock()
        self._known: dict[str, Known] = {}
        self._image = MetadataImage()
        self._count = 0
        self._drawn = 0
        self._start()

    def close(self) -> None:
        self._logs.close(clean=False)
        self._silence.__exit__(None, None, None)

    def _start(self) -> None:
        self._drawn += 1000  # each start gets other random names for stray directories
        surroundings = Surroundings(disk=self._disk, clock=self._clock, random_source=FixedChance(drawn=self._drawn))
        self._logs = LogManager(list(DIRECTORIES), surroundings)
        settings = default_settings()
        self._partitions = Partitions(
            broker_id=BROKER_ID,
            logs=self._logs,
            group_commit=no_group_commit(),
            peers=Alone(),
            settings_of=lambda _: settings,
        )
        self._partitions.start(self._image, PartitionListener())
        for name, known in self._known.items():
            partition = self._find(name)
            if partition is not None and known.kept_start <= partition.log.log_start_offset <= known.log_start:
                known.log_start = known.kept_start = partition.log.log_start_offset

    def do(self, operation: Operation) -> None:
        getattr(self, operation.name)(operation.a, operation.b, operation.c)
        for name, known in self._known.items():
            self._check(name, known)

    def finish(self) -> None:
        self.restart(0, 0, 0)
        for number, name in enumerate(NAMES):
            self.delete(number, 0, 0)
            self.create(number, 0, 0)
            assert self._find(name) is not None, f"again: {name} cannot be used"
        for name, known in self._known.items():
            self._check(name, known)

    # --- operations

    def create(self, a: int, b: int, c: int) -> None:
        name = NAMES[a % len(NAMES)]
        if name in self._known:
            return
        self._count += 1
        known = self._known[name] = Known(topic_image(name, self._count, 1))
        self._apply({**self._image.topics, name: known.image})
        partition = self._find(name)
        assert partition is not None, f"again: {name} is closed"
        assert partition.log.log_end_offset == 0, f"again: {name} has records of an earlier topic"

    def delete(self, a: int, b: int, c: int) -> None:
        name = NAMES[a % len(NAMES)]
        if self._known.pop(name, None) is not None:
            self._apply({key: topic for key, topic in self._image.topics.items() if key != name})

    def delete_unseen(self, a: int, b: int, c: int) -> None:
        """Delete a topic, and perhaps create it again, while the broker is down."""
        name = NAMES[a % len(NAMES)]
        if b % 2 == 0:
            self.flush(0, 0, 0)
        self._logs.close(clean=b % 2 == 0)
        topics = {key: topic for key, topic in self._image.topics.items() if key != name}
        self._known.pop(name, None)
        if c % 3:
            self._count += 1
            known = self._known[name] = Known(topic_image(name, self._count, 1))
            topics[name] = known.image
        self._image = dataclasses.replace(self._image, topics=topics)
        self._start()

    def _apply(self, topics: dict[str, TopicImage]) -> None:
        names = {topic.topic_id: topic.name for topic in topics.values()}
        old, self._image = self._image, dataclasses.replace(self._image, topics=topics, topic_names=names)
        self._partitions.apply(MetadataDelta(old, self._image))

    def append(self, a: int, b: int, c: int) -> None:
        name = NAMES[a % len(NAMES)]
        partition = self._find(name)
        if partition is None:
            return
        known = self._known[name]
        values = [b"%d-%d" % (self._count, each) for each in range(1 + b % 3)]
        self._count += 1
        result = partition.append(batch(*values), acks=-1)
        assert result.base_offset == len(known.values), f"offsets: {name}: {result.base_offset} was given"
        known.values += values

    def delete_records(self, a: int, b: int, c: int) -> None:
        name = NAMES[a % len(NAMES)]
        partition = self._find(name)
        if partition is not None:
            known = self._known[name]
            known.log_start = max(known.log_start, b % (len(known.values) + 1))
            partition.delete_records_before(known.log_start)

    def roll(self, a: int, b: int, c: int) -> None:
        partition = self._find(NAMES[a % len(NAMES)])
        if partition is not None and partition.log.log_end_offset > partition.log._active.base_offset:
            partition.log.roll()

    def flush(self, a: int, b: int, c: int) -> None:
        """Flush all logs and write the checkpoints."""
        for name, known in self._known.items():
            partition = self._find(name)
            if partition is not None:
                partition.log.flush()
                known.kept_start = known.log_start
        self._logs.directories.checkpoint({(each.topic, each.index): each.high_watermark for each in self._partitions})

    def restart(self, a: int, b: int, c: int) -> None:
        """Stop cleanly, or kill the process."""
        if a % 2 == 0:
            self.flush(0, 0, 0)
        self._logs.close(clean=a % 2 == 0)
        self._start()

    def damage(self, a: int, b: int, c: int) -> None:
        """Damage a flushed byte of a log while the broker is down after a crash."""
        name = NAMES[a % len(NAMES)]
        partition = self._find(name)
        if partition is None:
            return
        known = self._known[name]
        self.flush(0, 0, 0)
        path = f"{partition.log.directory}/{partition.log._active.base_offset:020d}.log"
        self._logs.close(clean=False)
        content = self._disk.file_at(path, "damage").content
        if content:
            # The byte is in the last batch's records: the CRC covers neither the base offset nor the leader epoch.
            content[-1 - b % RECORD_BYTES] ^= 1 << c % 8
            known.is_damaged = True
        self._start()

    def remove_due(self, a: int, b: int, c: int) -> None:
        """Remove deleted files that are due."""
        self._clock.now_ms += 61_000
        self._logs.directories.remove_files(self._logs.directories.take_due_files())

    # --- rules

    def _find(self, name: str) -> Partition | None:
        known = self._known.get(name)
        if known is None:
            return None
        try:
            return self._partitions.find(name, 0)
        except KafkaError as error:
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR, f"open: {name}: {error}"
            assert known.is_damaged, f"open: {name} is closed, and was not damaged"
            return None

    def _check(self, name: str, known: Known) -> None:
        partition = self._find(name)
        if partition is None:
            return None
        log = partition.log
        assert log.topic_id == known.image.topic_id, f"content: {name} is a log of {log.topic_id}"
        marks = (log.log_start_offset, partition.high_watermark, log.log_end_offset)
        if known.is_damaged:
            return self._check_damaged(name, known, log)
        assert marks == (known.log_start, len(known.values), len(known.values)), (
            f"offsets: {name}: {marks}, for {known.log_start} and {len(known.values)}"
        )
        assert self._read(log, known.log_start) == dict(enumerate(known.values[known.log_start :], known.log_start)), (
            f"content: {name} has other records"
        )
        return None

    def _check_damaged(self, name: str, known: Known, log: Any) -> None:
        try:
            found = self._read(log, log.log_start_offset)
        except (KafkaError, CorruptLogError):
            return
        for offset, value in found.items():
            assert known.values[offset : offset + 1] == [value], f"open: {name} serves {value!r} at {offset}"

    def _read(self, log: Any, start: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        offset = start
        while offset < log.log_end_offset:
            data = bytes(log.read(offset, READ_BYTES))
            if not data:
                break
            for record in decode_all(data):
                if record.offset >= offset:
                    found[record.offset] = record.value or b""
            offset = max(found, default=log.log_end_offset) + 1
        return found


LOG_FUZZER: Final = Fuzzer(
    "log",
    LogModel,
    {
        "create": 12, "delete": 6, "delete_unseen": 3, "append": 24, "delete_records": 3, "roll": 4, "flush": 4,
        "restart": 6, "damage": 4, "remove_due": 2,
    },
    steps=50,
    seeds=40,
)  # fmt: skip
