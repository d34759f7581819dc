"""Log directories of a broker: locked by their .lock files, with checkpoints, and failing as a whole.

A log directory belongs to one process. Beside the partitions it has checkpoints (recovery points, log starts, high
watermarks) that are written periodically. It also has .kafka_cleanshutdown, which is written last on a clean close and
removed before anything else is written: while it exists, no log needs a scan.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from kwire.log import leftovers
from kwire.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CheckpointJob,
    TopicPartition,
    write_offsets,
)
from kwire.log.disk import Disk, DiskFailure, DiskFullError, DiskLock
from kwire.log.files import PendingDeletion
from kwire.log.log_directory import (
    LOADED_FILES,
    LogDirectory,
    LogDirectoryError,
    clean_shutdown_epoch,
    read_valid_offsets,
)
from kwire.log.partition_log import PartitionLog
from kwire.seams import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")
LOCK_FILE: Final = ".lock"


class LogDirectories:
    """Log directories of log.dirs, in their order."""

    def __init__(
        self, paths: Iterable[str], disk: Disk, clock: Clock, *, locks: Mapping[str, DiskLock] | None = None
    ) -> None:
        """Open the directories, and take over the locks that the caller holds, for example to format a directory.

        If there are several, one whose device fails, or that the caller could not lock, is offline from the start.
        """
        self._disk = disk
        self._clock = clock
        self._pending: list[tuple[float, list[str]]] = []
        self._directories: list[LogDirectory] = []
        self.is_closing = False
        """True while the broker shuts down; logs are then neither created nor opened."""
        self._callbacks: dict[str, tuple[Callable[[DiskFailure], None], Callable[[bool], None]]] = {}
        """Callbacks of the logs, by directory: for a failure, and before a truncation."""
        try:
            for path in paths:
                self._directories.append(self._open_or_offline(path, locks))
            if self._directories and all(directory.is_offline for directory in self._directories):
                raise LogDirectoryError("log.dirs: every log directory is offline")
        except BaseException:
            self.release()
            raise

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __len__(self) -> int:
        return len(self._directories)

    def __getitem__(self, index: int) -> LogDirectory:
        return self._directories[index]

    def _open_or_offline(self, path: str, locks: Mapping[str, DiskLock] | None) -> LogDirectory:
        lock = None if locks is None else locks.get(path)
        try:
            if locks is not None and lock is None:  # its contents are unknown, even if it works again
                raise DiskFailure("open", path, OSError(errno.EIO, "it failed before"))
            return self._open_directory(path, lock)
        except DiskFailure as failure:
            logger.error("The log directory %s is offline: %s", path, failure)  # noqa: TRY400 no traceback needed
            return LogDirectory(path=path, lock=lock, was_clean_shutdown=False, failure=failure)

    def _open_directory(self, path: str, lock: DiskLock | None) -> LogDirectory:
        disk = self._disk
        disk.make_directory(path)
        lock = lock or disk.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise LogDirectoryError(
                f"log.dirs: {path} is in use by another broker; stop it, or configure another directory for this one"
            )
        was_clean = clean_shutdown_epoch(disk, path) is not None
        if was_clean:
            disk.unlink(f"{path}/{CLEAN_SHUTDOWN_FILE}")
            disk.sync_directory(path)
        leftovers.remove_deleted_if_full(disk, path)
        found = {name: read_valid_offsets(disk, f"{path}/{name}") for name in (*LOADED_FILES, CLEANER_FILE)}
        directory = LogDirectory(
            path=path,
            lock=lock,
            was_clean_shutdown=was_clean,
            recovery_points=found[RECOVERY_POINT_FILE] or {},
            log_starts=found[LOG_START_FILE] or {},
            high_watermarks=found[HIGH_WATERMARK_FILE] or {},
            cleaned=found[CLEANER_FILE] or {},
            named={name: frozenset(offsets or ()) for name, offsets in found.items()},
            has_lost_log_starts=found[LOG_START_FILE] is None,
        )
        self._callbacks[path] = (partial(self.take_offline, directory), partial(self.write_lowered, directory))
        return directory

    def release(self) -> None:
        """Release the locks."""
        for directory in self._directories:
            if directory.lock is not None:
                directory.lock.release()

    # Logs in them

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the open log of a partition, or None."""
        for directory in self._directories:
            if (log := directory.logs.get((topic, partition))) is not None:
                return log
        return None

    def logs(self) -> Iterator[PartitionLog]:
        """Yield every open log of every directory."""
        for directory in self._directories:
            yield from directory.logs.values()

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        """Return the directory of an open log."""
        return next(found for found in self._directories if found.logs.get((log.topic, log.partition)) is log)

    def has_directory(self, directory: LogDirectory, name: str) -> bool:
        """Return True if a directory of this name exists. Raises DiskFailure."""
        return self.guard(directory, partial(self._disk.is_directory, f"{directory.path}/{name}"))

    def add_opened(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Register a log that was opened."""
        key = (log.topic, log.partition)
        cleaned = max(0, directory.cleaned.pop(key, 0))  # the checkpoint has no checksum
        # Records appended after a crash truncated the log have not been compacted.
        log.offsets.cleaned(cleaned if cleaned <= log.log_end_offset else log.segments.active.base_offset)
        self.connect(directory, log)
        if directory.failure is not None:
            log.health.end(directory.failure)
        directory.logs[key] = log

    def connect(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Connect the callbacks of a log that is in the checkpoints of its directory."""
        self.connect_failures(directory, log)
        log.before_truncation = self._callbacks[directory.path][1]
        log.remove_later = self.remove_later

    def connect_failures(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Make a failure of the log take its directory offline."""
        log.health.on_failure = self._callbacks[directory.path][0]
        log.health.rejects_clients = directory.rejects_clients

    # Failures

    @property
    def any_offline(self) -> bool:
        """True if any directory is offline; it may contain partitions that no other directory has."""
        return any(directory.is_offline for directory in self._directories)

    def free_bytes(self, directory: LogDirectory) -> int:
        """Return the usable bytes of a directory's device; a worker may call this. Raises DiskFailure."""
        return self._disk.space(directory.path)[1]

    def guard(self, directory: LogDirectory, call: Callable[[], T]) -> T:
        """Run a call; any failure except a full disk takes the directory offline."""
        try:
            return call()
        except DiskFullError:
            raise
        except DiskFailure as failure:
            self.take_offline(directory, failure)
            raise

    def take_offline(self, directory: LogDirectory, failure: DiskFailure) -> None:
        """Take a directory offline: after the failure of one file, no log on the device is used any more."""
        directory.fail(failure)

    # Delayed removal of files

    def remove_later(self, pending: PendingDeletion) -> None:
        """Schedule the removal of renamed files, by the monotonic clock, because the wall clock may be set back."""
        self._pending.append((self._clock.monotonic_ms() + pending.delay_ms, pending.paths))

    def take_due_files(self) -> list[str]:
        """Return the files and directories that are due for removal; the caller passes them to remove_files."""
        now_ms = self._clock.monotonic_ms()
        due = [paths for due_ms, paths in self._pending if due_ms <= now_ms]
        self._pending = [(due_ms, paths) for due_ms, paths in self._pending if due_ms > now_ms]
        return [path for paths in due for path in paths]

    def remove_files(self, paths: Iterable[str]) -> None:
        """Remove unused files. A worker may call this, since the removal of a large file takes time."""
        leftovers.remove(self._disk, paths)

    # Checkpoints

    def checkpointed_high_watermark(self, topic: str, partition: int) -> int:
        """Return the high watermark of the last checkpoint, 0 if there is none."""
        key = (topic, partition)
        return next((found.high_watermarks[key] for found in self._directories if key in found.high_watermarks), 0)

    def begin_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int], names: Iterable[str] = LOADED_FILES
    ) -> list[CheckpointJob]:
        """Return jobs that write checkpoint files of every directory; after each run(), call finish_checkpoint."""
        return [
            directory.checkpoint_job(self._disk, name, high_watermarks)
            for directory in self._directories
            if not directory.is_offline
            for name in names
        ]

    def finish_checkpoint(self, job: CheckpointJob) -> bool:
        """Rename a written file into place; return False if it is outdated, or if the rename fails."""
        (directory,) = (directory for directory in self._directories if directory.path == job.directory)
        if directory.is_offline:
            return False
        overtaken = job.number != directory.checkpoints_written
        try:
            job.finish(is_overtaken=overtaken)
            if not overtaken:
                directory.short_of_space.discard(job.name)
                directory.named[job.name] = job.offsets.keys()
                if job.name == HIGH_WATERMARK_FILE:
                    directory.high_watermarks = dict(job.offsets)
                return True
        except DiskFullError:
            # The existing file is older but still correct: a start scans more. Space may become available.
            if job.name not in directory.short_of_space:  # a checkpoint is retried every few seconds
                directory.short_of_space.add(job.name)
                logger.warning("The disk is full: %s/%s stays as it was", job.directory, job.name)
        except DiskFailure as failure:
            self.take_offline(directory, failure)
        return False

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write all checkpoint files synchronously."""
        for job in self.begin_checkpoints(high_watermarks):
            job.run()
            self.finish_checkpoint(job)

    def write_lowered(self, directory: LogDirectory, log_starts: bool = False) -> None:
        """Write lowered offsets before a truncation; without space, the truncation fails.

        Otherwise, after a crash, the truncated log would look damaged, or new records would count as compacted.
        """
        if not directory.is_offline:
            optional = {CLEANER_FILE: directory.named.get(CLEANER_FILE), LOG_START_FILE: log_starts}
            names = [RECOVERY_POINT_FILE, *filter(optional.get, optional)]
            self.guard(directory, partial(self.write_checkpoints, directory, names))

    def write_checkpoints(self, directory: LogDirectory, names: Iterable[str]) -> None:
        """Write some checkpoint files of a directory synchronously. Raises DiskFailure."""
        directory.checkpoints_written += 1
        for name in names:
            offsets = directory.offsets_of(name)
            write_offsets(self._disk, f"{directory.path}/{name}", offsets)
            directory.named[name] = offsets.keys()

    def sync_removals(self, directory: LogDirectory) -> None:
        """Make the removal of logs durable; periodic checkpoints do not contain them any more."""
        self.write_cleaner_checkpoint(directory)
        self.guard(directory, partial(self._disk.sync_directory, directory.path))

    def write_cleaner_checkpoint(self, directory: LogDirectory) -> None:
        """Write the cleaner's checkpoint, which is not written periodically, if it contains removed logs."""
        if directory.has_deleted_names:
            self.guard(directory, partial(self.write_checkpoints, directory, (CLEANER_FILE,)))
