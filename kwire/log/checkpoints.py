"""Kafka's small text files: a version line, a count line, then one entry per line.

    leader-epoch-checkpoint                "epoch offset"
    recovery-point-offset-checkpoint       "topic partition offset"
    log-start-offset-checkpoint            the same
    replication-offset-checkpoint          the same: high watermarks
    partition.metadata                     "version: 0", "topic_id: " and 22 characters of base64
    .kafka_cleanshutdown                   {"version":0,"brokerEpoch":N}

A file is always replaced as a whole. A file that cannot be parsed raises CorruptCheckpointError; the caller decides how
to recover, since the content of each file can be rebuilt in another way.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from kwire.log.disk import Disk, DiskFailure

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
STAGED_SUFFIX: Final = ".staged"

TopicPartition = tuple[str, int]


class CorruptCheckpointError(Exception):
    """Checkpoint file with invalid content."""


def parse_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs. Raises CorruptCheckpointError if either does not increase."""
    entries = [(int(epoch), int(offset)) for epoch, offset in _parse_lines(data, path, 2)]
    for (epoch, start), (next_epoch, next_start) in pairwise(entries):
        if next_epoch <= epoch or next_start <= start:
            raise CorruptCheckpointError(f"{path}: epochs do not increase")
    return entries


def format_epochs(entries: list[tuple[int, int]]) -> bytes:
    return _format_lines([f"{epoch} {offset}" for epoch, offset in entries])


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Return the offsets by partition; empty if the file does not exist."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return {}
    return parse_offsets(data, path)


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    return {(topic, int(partition)): int(offset) for topic, partition, offset in _parse_lines(data, path, 3)}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    """Replace the file. Pass sync=False if the old file is still correct after a crash."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    disk.replace(path, _format_lines(lines), sync=sync)


class CheckpointJob:
    """Checkpoint file that a worker writes beside the old one; the event loop then renames it into place."""

    def __init__(
        self, disk: Disk, directory: str, name: str, offsets: Mapping[TopicPartition, int], number: int
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.name = name
        self._path = f"{directory}/{name}"
        self.offsets = offsets
        self.number = number
        """Value of LogDirectory.checkpoints_written when the offsets were read."""
        self._failure: DiskFailure | None = None

    def run(self) -> None:
        """Write and sync the staged file; finish raises a failure."""
        try:
            write_offsets(self._disk, self._path + STAGED_SUFFIX, self.offsets)
        except DiskFailure as failure:
            self._failure = failure

    def finish(self, *, is_overtaken: bool) -> None:
        """Replace the old file, unless a newer checkpoint was written meanwhile. Raises DiskFailure, also for run()."""
        if self._failure is not None:
            raise self._failure
        if is_overtaken:
            self._disk.unlink(self._path + STAGED_SUFFIX)
        else:
            self._disk.rename(self._path + STAGED_SUFFIX, self._path)


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: 0\ntopic_id: {encoded}\n".encode()


def parse_partition_metadata(data: bytes, path: str) -> uuid.UUID:
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if fields["version"] != "0":
            raise CorruptCheckpointError(f"{path}: unknown version {fields['version']}")
        return uuid.UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: no topic id: {error}") from error


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def parse_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch of the clean shutdown, -1 if the file does not have a valid one."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return -1
    epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else -1
    return epoch if isinstance(epoch, int) and -1 <= epoch < 2**63 else -1


def _format_lines(lines: list[str]) -> bytes:
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _parse_lines(data: bytes, path: str, field_count: int) -> list[list[str]]:
    if not data:  # Kafka creates its checkpoint files empty
        return []
    try:
        lines = data.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
        entries = [line.split() for line in lines[2:] if line.strip()]
        numbers = [int(field) for entry in entries for field in entry[field_count - 2 :]]
        if not all(-(2**31) <= each < 2**31 for each in numbers[::2]):
            raise ValueError("an epoch or partition has no more than 32 bits")
        if not all(-(2**63) <= each < 2**63 for each in numbers[1::2]):
            raise ValueError("an offset has no more than 64 bits")
    except (IndexError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: malformed line") from error
    if version != 0:
        raise CorruptCheckpointError(f"{path}: unknown version {version}")
    if not data.endswith(b"\n"):
        # A power failure may have cut off digits of the last number, which would then be parsed as another number.
        raise CorruptCheckpointError(f"{path}: the last line has no newline")
    if len(entries) != count or any(len(entry) != field_count for entry in entries):
        raise CorruptCheckpointError(f"{path}: {count} entries announced, {len(entries)} found")
    return entries
