"""One log directory: what its files said when it was opened, its logs, and what its checkpoints should say now."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kwire.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CheckpointJob,
    CorruptCheckpointError,
    TopicPartition,
    parse_clean_shutdown,
    read_offsets,
)
from kwire.log.config import LogConfig
from kwire.log.disk import Disk, DiskFailure, DiskLock
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, open_log

logger = logging.getLogger(__name__)

LOADED_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE)
"""Checkpoints that say how a log is opened, and how much of it is committed."""


class LogDirectoryError(Exception):
    """A log directory that cannot be used; the message says what to do."""


def clean_shutdown_epoch(disk: Disk, path: str) -> int | None:
    """The broker epoch in which a directory was shut down cleanly, -1 if that is not told; None after any other end."""
    try:
        return parse_clean_shutdown(disk.read(f"{path}/{CLEAN_SHUTDOWN_FILE}"))
    except FileNotFoundError:
        return None


def previous_broker_epoch(disk: Disk, paths: Iterable[str]) -> int:
    """The broker epoch of the last clean shutdown, -1 if any directory was not shut down cleanly (KIP-966).

    Only as long as nobody has opened the directories.
    """
    try:
        epochs = {clean_shutdown_epoch(disk, path) for path in paths}
    except DiskFailure:
        return -1
    epoch = epochs.pop() if len(epochs) == 1 else None
    return -1 if epoch is None else epoch


def offsets_unless_broken(disk: Disk, path: str) -> dict[TopicPartition, int] | None:
    """What a checkpoint file says.

    Without it recovery scans more, the leader epochs tell the log starts, and the high watermark is learnt again.
    """
    try:
        return read_offsets(disk, path)
    except CorruptCheckpointError as error:
        logger.warning("Ignoring a broken checkpoint: %s", error)
        return None


@dataclass(slots=True, kw_only=True)
class LogDirectory:
    """One entry of log.dirs and what its files said when it was opened."""

    path: str
    lock: DiskLock | None
    """None if the directory could not be opened."""
    was_clean_shutdown: bool
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    """What the file says now."""
    cleaned: dict[TopicPartition, int] = field(default_factory=dict)
    """How far logs that are not open were compacted."""
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    futures: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    """Logs on their way into this directory (kwire.log.future_logs); no checkpoint names them."""
    short_of_space: set[str] = field(default_factory=set)
    """The checkpoint files that a full disk keeps as they were, each told of once."""
    is_loaded: bool = False
    """Whether the logs that were in it at start have been opened."""
    has_lost_log_starts: bool = False
    """Whether the file that says them was unreadable; each log is asked then."""
    is_cordoned: bool = False
    """Whether it gets no new logs (KIP-1066)."""
    failure: DiskFailure | None = None
    """Why the directory is offline; set once."""
    failed: Callable[[], None] = lambda: None
    """Called once, when the directory goes offline."""
    checkpoints_written: int = 0
    """Counts what makes jobs under way outdated: checkpoints written on the loop, logs taken away."""
    named: dict[str, AbstractSet[TopicPartition]] = field(default_factory=dict)
    """By checkpoint file, the partitions that it names; some of them may be gone."""

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, failure: DiskFailure) -> None:
        """Take the directory offline: none of its logs is used any more. Does nothing if it is offline already."""
        if self.is_offline:
            return
        self.failure = failure
        logger.error("The log directory %s goes offline: %s", self.path, failure)
        for log in (*self.logs.values(), *self.futures.values()):
            log.health.end(failure)
        self.failed()

    def offsets_of(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint file should say now; of high watermarks, what it says already."""
        if name == HIGH_WATERMARK_FILE:
            return dict(self.high_watermarks)
        if name == CLEANER_FILE:
            return self.cleaned_now()
        return self.recovery_points_now() if name == RECOVERY_POINT_FILE else self.log_starts_now()

    def forget(self, key: TopicPartition) -> None:
        """The partition is gone; the files may still name it."""
        for offsets in (self.logs, self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned):
            offsets.pop(key, None)

    def keep_closed(self, key: TopicPartition) -> None:
        """The partition is where it was, and its log is closed: the files go on saying what was true of it."""
        log = self.logs.pop(key, None)
        if log is not None:
            self.recovery_points[key] = log.recovery_point
            self.log_starts[key] = log.log_start_offset
            self.cleaned[key] = log.offsets.first_dirty

    def opening(
        self, key: TopicPartition, config: LogConfig, surroundings: Surroundings, topic_id: uuid.UUID | None = None
    ) -> Callable[[], PartitionLog]:
        """The call that opens a log as the checkpoints say; a worker may make it."""
        topic, partition = key
        return partial(
            open_log,
            f"{self.path}/{topic}-{partition}",
            topic=topic,
            partition=partition,
            config=config,
            surroundings=surroundings,
            topic_id=topic_id,
            log_start_offset=self.log_starts.get(key, None if self.has_lost_log_starts else 0),
            recovery_point=self.recovery_points.get(key, 0),
            was_clean_shutdown=self.was_clean_shutdown,
        )

    def checkpoint_job(self, disk: Disk, name: str, high_watermarks: Mapping[TopicPartition, int]) -> CheckpointJob:
        """The writing of a checkpoint file as it should be with these high watermarks."""
        if name == HIGH_WATERMARK_FILE:
            offsets = {key: high_watermarks[key] for key in self.logs if key in high_watermarks}
        else:
            offsets = self.offsets_of(name)
        return CheckpointJob(disk, self.path, name, offsets, self.checkpoints_written)

    def log_starts_now(self) -> dict[TopicPartition, int]:
        """Also those that the first segment's name tells: that the segments before it went may not be durable yet."""
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > 0}
        return {key: offset for key, offset in self.log_starts.items() if key not in self.logs} | starts

    def cleaned_now(self) -> dict[TopicPartition, int]:
        """Up to where logs were compacted; those that were not are not named."""
        opened = {key: log.offsets.first_dirty for key, log in self.logs.items()}
        return {key: offset for key, offset in (self.cleaned | opened).items() if offset > 0}

    @property
    def names_deleted(self) -> bool:
        """Whether the file of the cleaner names a log that has gone; what this costs grows with what it names."""
        return any(self._cleaned_to(key) <= 0 for key in self.named.get(CLEANER_FILE, ()))

    def _cleaned_to(self, key: TopicPartition) -> int:
        log = self.logs.get(key)
        return self.cleaned.get(key, 0) if log is None else log.offsets.first_dirty

    def recovery_points_now(self) -> dict[TopicPartition, int]:
        """A log that is damaged and stays closed keeps its entry: the next start must not take it for unflushed."""
        return self.recovery_points | {key: log.recovery_point for key, log in self.logs.items()}
