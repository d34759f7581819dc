"""Check of a log directory: its partitions, then its own files compared with them."""

# Paths are plain strings, as everywhere in kwire.log.
# ruff: noqa: PTH112, PTH118, PTH119, PTH120, PTH100, PTH202, PTH208

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kwire.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpointError,
    TopicPartition,
    parse_offsets,
)
from kwire.log.inspection.dumping import (
    META_PROPERTIES_FILE,
    PARTITION_DIRECTORY,
    files_below,
    json_object,
    properties,
)
from kwire.log.inspection.findings import Finding
from kwire.log.inspection.partition_check import Findings, PartitionCheck, check_metadata_snapshot
from kwire.log.inspection.payloads import METADATA_TOPIC
from kwire.log.inspection.reading import InspectionError, read_lines_file, read_whole
from kwire.log.log_directories import LOCK_FILE
from kwire.protocol.uuids import uuid_from_text, uuid_to_text

SNAPSHOT_NAME = re.compile(r"(\d{20})-\d{10}\.checkpoint")
"""Name of a metadata snapshot: its end offset (exclusive) and the epoch of its last record."""
OWN_FILES = (
    META_PROPERTIES_FILE,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINT_FILE,
    LOG_START_FILE,
    HIGH_WATERMARK_FILE,
    LOCK_FILE,
)


def is_partition_directory(path: str) -> bool:
    return any(name.endswith(".log") or name == "partition.metadata" for name in _names(path))


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError) as error:
        raise InspectionError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def bytes_below(path: str) -> int:
    """Return how many bytes a check reads, for its progress report."""
    return sum(os.path.getsize(file) for file in files_below(path) if file.endswith((".log", ".checkpoint")))


@contextmanager
def locked(path: str, *, force: bool) -> Iterator[None]:
    """Keep brokers from using the log directory meanwhile. Raises InspectionError if one uses it, unless forced."""
    directory = os.path.dirname(os.path.abspath(path)) if is_partition_directory(path) else path
    try:
        descriptor = os.open(os.path.join(directory, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        yield  # a copy without its lock file
        return
    try:
        # A shared lock needs no write permission, and conflicts with the broker's exclusive lock.
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if not force:
            os.close(descriptor)
            what = "is in use by a running broker; stop it, or check a copy (--force checks while it writes)"
            raise InspectionError(f"{directory}: {what}") from error
    try:
        yield
    finally:
        os.close(descriptor)


class DirectoryCheck:
    """Check of a log directory."""

    def __init__(self, directory: str, advance: Callable[[int], None]) -> None:
        self._directory = directory
        self._advance = advance
        self._partitions: dict[TopicPartition, PartitionCheck] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._was_clean = False

    def run(self) -> Findings:
        names = _names(self._directory)
        found = [name for name in names if PARTITION_DIRECTORY.fullmatch(name) and os.path.isdir(self._path(name))]
        if not found and not set(names) & set(OWN_FILES):
            raise InspectionError(f"{self._directory}: is neither a log directory nor a partition directory")
        self._log_starts = self._offsets_in(LOG_START_FILE)
        self._was_clean = CLEAN_SHUTDOWN_FILE in names
        for name in names:
            if name in found:
                yield from self._check_partition(name)
            elif os.path.isdir(self._path(name)):
                what = "not a partition directory; the next start removes deleted ones"
                yield Finding(path=self._path(name), what=what, is_wrong=False)
            elif name.endswith(".checkpoint"):
                yield from self._guarded(name, self._check_bootstrap)
        for name, check in (
            (META_PROPERTIES_FILE, self._check_identity),
            (CLEAN_SHUTDOWN_FILE, self._check_clean_shutdown),
            (LOG_START_FILE, self._check_offsets),
            (RECOVERY_POINT_FILE, self._check_offsets),
            (HIGH_WATERMARK_FILE, self._check_offsets),
            (CLEANER_FILE, self._check_offsets),
        ):
            if name in names:
                yield from self._guarded(name, check)
        yield from self._check_order()
        yield from self._check_topic_ids()

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _guarded(self, name: str, check: Callable[[str], Findings]) -> Findings:
        try:
            yield from check(self._path(name))
        except (InspectionError, CorruptCheckpointError, ValueError, OSError) as error:
            yield Finding(path=self._path(name), what=str(error).removeprefix(f"{self._path(name)}: "))

    def _check_partition(self, name: str) -> Findings:
        topic, _, number = name.rpartition("-")
        key = (topic, int(number))
        # After a crash, leader-epoch-checkpoint may have a newer log start than the log start checkpoint.
        log_start = self._log_start(name, key) if self._was_clean else None
        check = self._partitions[key] = PartitionCheck(self._path(name), self._advance, log_start)
        yield from self._guarded(name, lambda _: check.run())

    def _log_start(self, name: str, key: tuple[str, int]) -> int:
        """Return the log start offset from the checkpoints; the metadata log starts at its oldest snapshot."""
        if key[0] != METADATA_TOPIC:
            return self._log_starts.get(key, 0)
        snapshots = (SNAPSHOT_NAME.fullmatch(each) for each in os.listdir(self._path(name)))
        return min((int(found[1]) for found in snapshots if found), default=0)

    def _check_bootstrap(self, path: str) -> Findings:
        yield from check_metadata_snapshot(path, self._advance)

    def _check_identity(self, path: str) -> Findings:
        values = properties(read_lines_file(path))
        if values.get("version") != "1":
            yield Finding(path=path, what=f"version {values.get('version')}: only 1 is known")
        for key in ("cluster.id", "node.id", "directory.id"):
            if not values.get(key):
                yield Finding(path=path, what=f"it has no {key}")
        if int(values.get("node.id", "0")) < 0:
            yield Finding(path=path, what="node.id is negative")
        uuid_from_text(values.get("directory.id", ""))

    def _check_clean_shutdown(self, path: str) -> Findings:
        content = json_object(read_whole(path))
        if content.get("version") != 0 or not isinstance(content.get("brokerEpoch"), int):
            yield Finding(path=path, what="it has no version 0 and brokerEpoch")

    # Checkpoints

    def _check_offsets(self, path: str) -> Findings:
        name = os.path.basename(path)
        offsets = parse_offsets(read_lines_file(path), path)
        for (topic, number), offset in offsets.items():
            partition = self._partitions.get((topic, number))
            if partition is None:
                what = f"{topic}-{number} is not here"
                yield Finding(path=path, what=what, offset=offset, is_wrong=self._was_clean)
            elif offset < 0 or offset > partition.end_offset:
                what = f"{topic}-{number} ends at offset {partition.end_offset}, before the checkpointed offset"
                yield Finding(path=path, what=what, offset=offset)
            elif name == RECOVERY_POINT_FILE and self._was_clean and offset != partition.end_offset:
                what = f"{topic}-{number} ends at offset {partition.end_offset}, but the shutdown was clean"
                yield Finding(path=path, what=what, offset=offset)
        if name == RECOVERY_POINT_FILE and self._was_clean:
            for topic, number in self._partitions.keys() - offsets.keys():
                if topic != METADATA_TOPIC:
                    yield Finding(path=path, what=f"{topic}-{number} is missing, although the shutdown was clean")

    def _check_order(self) -> Findings:
        """Check that the log start offset is at most the other offsets; files from different times may differ."""
        starts, *others = (
            self._offsets_in(name) for name in (LOG_START_FILE, RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE)
        )
        for name, offsets in zip((RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE), others, strict=True):
            for key in starts.keys() & offsets.keys():
                if starts[key] > offsets[key]:
                    what = f"{key[0]}-{key[1]}: the log's start, offset {starts[key]}, is behind it"
                    yield Finding(path=self._path(name), what=what, offset=offsets[key], is_wrong=self._was_clean)

    def _offsets_in(self, name: str) -> dict[TopicPartition, int]:
        try:
            return parse_offsets(read_lines_file(self._path(name)), name)
        except (InspectionError, CorruptCheckpointError, ValueError):
            return {}  # already reported, or the file does not exist

    def _check_topic_ids(self) -> Findings:
        """Check that all partitions of a topic have one topic id: that of the metadata log, if it has the topic."""
        metadata = self._partitions.get((METADATA_TOPIC, 0))
        known = dict(metadata.topic_ids) if metadata is not None else {}
        for (topic, _), partition in self._partitions.items():
            if partition.topic_id is None or topic == METADATA_TOPIC:
                continue
            topic_id = uuid_to_text(partition.topic_id)
            if known.setdefault(topic, topic_id) != topic_id:
                what = f"topic id {topic_id}, elsewhere that of {topic} is {known[topic]}"
                yield Finding(path=os.path.join(partition.directory, "partition.metadata"), what=what)
