"""Log directory: the content of its files when it was opened, its logs, and the current values for its checkpoints."""

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
"""Checkpoints that determine how a log is opened and how much of it is committed."""


class LogDirectoryError(Exception):
    """Log directory that cannot be used; the message says what to do."""


def clean_shutdown_epoch(disk: Disk, path: str) -> int | None:
    """Return the broker epoch of a clean shutdown, -1 if it is unknown; None if the shutdown was not clean."""
    try:
        return parse_clean_shutdown(disk.read(f"{path}/{CLEAN_SHUTDOWN_FILE}"))
    except FileNotFoundError:
        return None


def previous_broker_epoch(disk: Disk, paths: Iterable[str]) -> int:
    """Return the broker epoch of the last clean shutdown, -1 if any directory was not shut down cleanly (KIP-966).

    Must be called before the directories are opened.
    """
    try:
        epochs = {clean_shutdown_epoch(disk, path) for path in paths}
    except DiskFailure:
        return -1
    epoch = epochs.pop() if len(epochs) == 1 else None
    return -1 if epoch is None else epoch


def read_valid_offsets(disk: Disk, path: str) -> dict[TopicPartition, int] | None:
    """Return the offsets in a checkpoint file, None if it is broken.

    Without them recovery scans more, log starts come from the leader epochs, and the high watermark from replication.
    """
    try:
        return read_offsets(disk, path)
    except CorruptCheckpointError as error:
        logger.warning("Ignoring a broken checkpoint: %s", error)
        return None


@dataclass(slots=True, kw_only=True)
class LogDirectory:
    """Log directory from log.dirs, with the content of its files when it was opened."""

    path: str
    lock: DiskLock | None
    """None if the directory could not be opened."""
    was_clean_shutdown: bool
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    """High watermarks that are in the file now."""
    cleaned: dict[TopicPartition, int] = field(default_factory=dict)
    """First dirty offsets of logs that are not open."""
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    futures: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    """Logs that are being moved to this directory (kwire.log.future_logs); no checkpoint contains them."""
    short_of_space: set[str] = field(default_factory=set)
    """Checkpoint files that a full disk keeps outdated; each is logged once."""
    is_loaded: bool = False
    """True if the logs that were in the directory at start have been opened."""
    has_lost_log_starts: bool = False
    """True if the log start checkpoint was unreadable; the log starts then come from the logs."""
    is_cordoned: bool = False
    """True if the directory gets no new logs (KIP-1066)."""
    rejects_clients: bool = False
    """True if the device has fewer free bytes than log.dirs.free.bytes.min; changed by `set_rejects_clients`."""
    failure: DiskFailure | None = None
    """Reason why the directory is offline; set once."""
    failed: Callable[[], None] = lambda: None
    """Callback for when the directory goes offline; called once."""
    checkpoints_written: int = 0
    """Number of changes that make running checkpoint jobs outdated: synchronous checkpoints, and removals of logs."""
    named: dict[str, AbstractSet[TopicPartition]] = field(default_factory=dict)
    """Partitions in each checkpoint file, by file name; some may be removed by now."""

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, failure: DiskFailure) -> None:
        """Take the directory offline: none of its logs is used any more. Does nothing if it is already offline."""
        if self.is_offline:
            return
        self.failure = failure
        logger.error("The log directory %s goes offline: %s", self.path, failure)
        for log in (*self.logs.values(), *self.futures.values()):
            log.health.end(failure)
        self.failed()

    def set_rejects_clients(self, rejects_clients: bool) -> None:
        """Reject or accept the batches of clients in all logs of the directory."""
        self.rejects_clients = rejects_clients
        for log in (*self.logs.values(), *self.futures.values()):
            log.health.rejects_clients = rejects_clients

    def offsets_of(self, name: str) -> dict[TopicPartition, int]:
        """Return the current offsets for a checkpoint file; for high watermarks, those in the file."""
        if name == HIGH_WATERMARK_FILE:
            return dict(self.high_watermarks)
        if name == CLEANER_FILE:
            return self.current_cleaned()
        return self.current_recovery_points() if name == RECOVERY_POINT_FILE else self.current_log_starts()

    def remove(self, key: TopicPartition) -> None:
        """Remove a partition from all offsets; the files may still contain it."""
        for offsets in (self.logs, self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned):
            offsets.pop(key, None)

    def keep_closed(self, key: TopicPartition) -> None:
        """Remove a log that could not be renamed and is closed, but keep its offsets for the checkpoints."""
        log = self.logs.pop(key, None)
        if log is not None:
            self.recovery_points[key] = log.recovery_point
            self.log_starts[key] = log.log_start_offset
            self.cleaned[key] = log.offsets.first_dirty

    def opening(
        self, key: TopicPartition, config: LogConfig, surroundings: Surroundings, topic_id: uuid.UUID | None = None
    ) -> Callable[[], PartitionLog]:
        """Return the call that opens a log with the offsets from the checkpoints; a worker may make it."""
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
        """Return the job that writes a checkpoint file, with these high watermarks."""
        if name == HIGH_WATERMARK_FILE:
            offsets = {key: high_watermarks[key] for key in self.logs if key in high_watermarks}
        else:
            offsets = self.offsets_of(name)
        return CheckpointJob(disk, self.path, name, offsets, self.checkpoints_written)

    def current_log_starts(self) -> dict[TopicPartition, int]:
        """Return the log start offsets.

        They include starts that follow from the first segment's name, because the removal of earlier segments may not
        be durable.
        """
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > 0}
        return {key: offset for key, offset in self.log_starts.items() if key not in self.logs} | starts

    def current_cleaned(self) -> dict[TopicPartition, int]:
        """Return the first dirty offsets of logs; logs that were never compacted are omitted."""
        opened = {key: log.offsets.first_dirty for key, log in self.logs.items()}
        return {key: offset for key, offset in (self.cleaned | opened).items() if offset > 0}

    @property
    def has_deleted_names(self) -> bool:
        """True if the cleaner's checkpoint contains removed logs; the cost grows with the size of the file."""
        return any(self._cleaned_to(key) <= 0 for key in self.named.get(CLEANER_FILE, ()))

    def _cleaned_to(self, key: TopicPartition) -> int:
        log = self.logs.get(key)
        return self.cleaned.get(key, 0) if log is None else log.offsets.first_dirty

    def current_recovery_points(self) -> dict[TopicPartition, int]:
        """Return the recovery points.

        A damaged log that stays closed keeps its entry, so that the next start does not consider it unflushed.
        """
        return self.recovery_points | {key: log.recovery_point for key, log in self.logs.items()}
