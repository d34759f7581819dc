"""All logs of a broker: one directory per partition in one or more log directories.

A log directory is taken with its .lock file and belongs to one process. Beside the partitions it has checkpoints
(recovery points, log starts, high watermarks) that are written now and then, and .kafka_cleanshutdown, which is written
last on a clean close and removed before anything else is written: while it is there, no log needs a scan.

Partition directories are "topic-partition"; "topic-partition.<32 hex digits>-delete" is one whose files wait for their
removal. Other directories are left alone and named in the broker's log.
"""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
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
from kwire.log.closed_logs import ClosedLogs
from kwire.log.closing import LogClosing
from kwire.log.config import LogConfig
from kwire.log.deletions import Deletions
from kwire.log.disk import DiskFailure, DiskFullError, DiskLock
from kwire.log.errors import CorruptLogError, LogClosedError
from kwire.log.files import PendingDeletion
from kwire.log.flushing import FlushJob
from kwire.log.future_logs import FutureLogs
from kwire.log.jobs import Stage, run_here
from kwire.log.loading import LogLoading, TopicIdOf
from kwire.log.log_directory import (
    LOADED_FILES,
    LogDirectory,
    LogDirectoryError,
    clean_shutdown_epoch,
    offsets_unless_broken,
)
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from kwire.log.retention import SEGMENTS_AT_ONCE
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")
LOCK_FILE: Final = ".lock"


class LogManager:
    """The logs of all partitions on this broker."""

    def __init__(
        self, paths: Iterable[str], surroundings: Surroundings, *, locks: Mapping[str, DiskLock] | None = None
    ) -> None:
        """Open the directories; locks that the caller took already (to format a directory) become this object's.

        One of several whose device fails is offline from the start, and so is one that the caller could not lock.
        """
        self._surroundings = surroundings
        self._disk = surroundings.disk
        self._pending: list[tuple[float, list[str]]] = []
        self.directories: list[LogDirectory] = []
        self.is_closing = False
        """True while the broker stops: logs are neither created nor opened."""
        self.callbacks: dict[str, tuple[Callable[[DiskFailure], None], Callable[[bool], None]]] = {}
        """By directory, what its logs call when they fail and before they are truncated: one pair for all of them."""
        self.futures = FutureLogs(self, surroundings)
        self.closed = ClosedLogs(self, surroundings)
        self.deletions = Deletions(self, self._disk)
        try:
            for path in paths:
                self.directories.append(self._open_or_offline(path, locks))
            if self.directories and all(directory.is_offline for directory in self.directories):
                raise LogDirectoryError("log.dirs: every log directory is offline")
        except BaseException:
            self._release()
            raise

    def _open_or_offline(self, path: str, locks: Mapping[str, DiskLock] | None) -> LogDirectory:
        lock = None if locks is None else locks.get(path)
        try:
            if locks is not None and lock is None:  # whose directory it is was not read: it may be well by now
                raise DiskFailure("open", path, OSError(errno.EIO, "it failed before"))
            return self._open_directory(path, lock)
        except DiskFailure as failure:
            logger.error("The log directory %s is offline: %s", path, failure)  # noqa: TRY400 the failure says all
            return LogDirectory(path=path, lock=lock, was_clean_shutdown=False, failure=failure)

    def _open_directory(self, path: str, lock: DiskLock | None) -> LogDirectory:
        disk = self._disk
        disk.make_directory(path)
        lock = lock or disk.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise LogDirectoryError(
                f"log.dirs: {path} is in use by another broker; stop it, or give this one a directory of its own"
            )
        was_clean = clean_shutdown_epoch(disk, path) is not None
        if was_clean:
            disk.unlink(f"{path}/{CLEAN_SHUTDOWN_FILE}")
            disk.sync_directory(path)
        leftovers.make_room(disk, path)
        found = {name: offsets_unless_broken(disk, f"{path}/{name}") for name in (*LOADED_FILES, CLEANER_FILE)}
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
        self.callbacks[path] = (partial(self.take_offline, directory), partial(self.write_lowered, directory))
        return directory

    # Logs

    def load_all(self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None) -> int:
        """Open every partition that is on disk, here and now, and return their number. Raises LogDirectoryError."""
        loading = self.loading(config_of, topic_id_of)
        run_here(loading.stages())
        return loading.opened

    def loading(
        self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None, *, at_once: int = 1
    ) -> LogLoading:
        """The stages that open every partition that is on disk, `at_once` of them at the same time."""
        return LogLoading(self, self._surroundings, config_of, topic_id_of, at_once)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        for directory in self.directories:
            if (log := directory.logs.get((topic, partition))) is not None:
                return log
        return None

    def get_or_create(self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None) -> PartitionLog:
        """The partition's log; a new one goes to the directory with the fewest logs that is not cordoned, one that
        stayed closed to its own.

        What is found may be of an earlier topic of this name, and is if a power cut took its id: no flush came after
        that was written, so nothing in there was ever durable. It is set aside.

        Raises CorruptLogError, DiskFailure, or KafkaError if there is no space for it.
        """
        log = self.get(topic, partition) or self._open_somewhere(topic, partition, config, topic_id)
        if topic_id in (None, log.topic_id):
            return log
        if log.topic_id is None and log.log_end_offset == 0:
            self.delete(topic, partition)  # half made; what checkpoints say of it may be of an earlier topic
        else:
            path = self.set_aside(topic, partition)
            logger.warning("%s-%d: not known to be of this topic; set aside as %s", topic, partition, path)
        return self._open_somewhere(topic, partition, config, topic_id)

    def _open_somewhere(
        self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None
    ) -> PartitionLog:
        if self.is_closing:  # it would not be flushed
            raise LogClosedError(f"the log of {topic}-{partition} is not opened: the broker stops")
        online = [directory for directory in self.directories if not directory.is_offline]
        if not online:
            raise LogDirectoryError("log.dirs: every log directory is offline")
        key = (topic, partition)
        holders = [
            found
            for found in online
            if self.has_directory(found, f"{topic}-{partition}")
            and not self.closed.set_foreign_aside(found, key, topic_id)
        ]
        holders = holders or self.futures.preferred(topic, partition, online)
        open_to_new = [directory for directory in online if not directory.is_cordoned]
        directory = min(holders or open_to_new or online, key=lambda candidate: len(candidate.logs))
        try:
            return self._open(directory, topic, partition, config, topic_id)
        except CorruptLogError as error:
            if topic_id is None or self.closed.has_topic_id(directory, key):
                raise
            self.closed.set_aside(directory, key, f"not known to be of this topic, and damaged: {error}")
            return self._open(directory, topic, partition, config, topic_id)

    def has_directory(self, directory: LogDirectory, name: str) -> bool:
        return self.guard(directory, partial(self._disk.is_directory, f"{directory.path}/{name}"))

    def _open(
        self, directory: LogDirectory, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None
    ) -> PartitionLog:
        key = (topic, partition)
        naming = [name for name, keys in directory.named.items() if key in keys]
        if naming and not self.has_directory(directory, f"{topic}-{partition}"):
            # An earlier topic of this name was deleted. After a crash its offsets would be taken for those of the new
            # one: its records below the old log start would be gone, and those below the old high watermark committed.
            directory.forget(key)
            self.guard(directory, partial(self.write_checkpoints, directory, naming))
        log = self.guard(directory, directory.opening(key, config, self._surroundings, topic_id))
        self.take_opened(directory, log)
        return log

    def take_opened(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Own a log that was opened."""
        key = (log.topic, log.partition)
        cleaned = directory.cleaned.pop(key, 0)
        # What is appended where a crash tore the log has not been compacted.
        log.offsets.cleaned(cleaned if cleaned <= log.log_end_offset else log.segments.active.base_offset)
        log.health.on_failure, log.before_truncation = self.callbacks[directory.path]
        log.remove_later = self.remove_later
        if directory.failure is not None:
            log.health.end(directory.failure)
        directory.logs[key] = log

    @property
    def any_offline(self) -> bool:
        """Whether a directory is offline: a partition that is in no other one may be in it."""
        return any(directory.is_offline for directory in self.directories)

    def logs(self) -> Iterator[PartitionLog]:
        """Every log of every directory."""
        for directory in self.directories:
            yield from directory.logs.values()

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        return next(found for found in self.directories if found.logs.get((log.topic, log.partition)) is log)

    def checkpointed_high_watermark(self, topic: str, partition: int) -> int:
        """The high watermark of the last checkpoint, 0 if there was none."""
        key = (topic, partition)
        return next((found.high_watermarks[key] for found in self.directories if key in found.high_watermarks), 0)

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition away: its directory is renamed now and removed after file.delete.delay.ms."""
        self.delete_all([(topic, partition)])

    def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions away, durably together. What a failing device does not let go, a later start sets aside."""
        self.deletions.rename(partitions)
        self.deletions.settle()

    def settle_names(self, directory: LogDirectory) -> None:
        """Make durable that logs have gone; no checkpoint that is written now and then names them any more."""
        self.forget_cleaned(directory)
        self.guard(directory, partial(self._disk.sync_directory, directory.path))

    def forget_cleaned(self, directory: LogDirectory) -> None:
        """Write the cleaner's checkpoint, which no other writes, if it names logs that have gone."""
        if directory.names_deleted:
            self.guard(directory, partial(self.write_checkpoints, directory, (CLEANER_FILE,)))

    def set_aside(self, topic: str, partition: int) -> str:
        """Take a partition away that the metadata does not know; its directory stays, under the name returned.

        The metadata may be what is damaged: nobody's data is removed on its word alone.
        """
        log = self.get(topic, partition)
        assert log is not None
        directory = self.directory_of(log)
        path = self.take_away(log, directory, "stray")
        self.settle_names(directory)
        return path

    def take_away(self, log: PartitionLog, directory: LogDirectory, why: str) -> str:
        """Close the log and rename its directory; the new path."""
        log.close(clean=False)
        log.health.on_failure = None  # a flush of it may be under way: how that ends says nothing about the directory
        return self.closed.rename_away(log.directory, directory, (log.topic, log.partition), why, moved=log.moved_to)

    def guard(self, directory: LogDirectory, call: Callable[[], T]) -> T:
        """Whatever fails here but for a full disk takes the directory offline."""
        try:
            return call()
        except DiskFullError:
            raise
        except DiskFailure as failure:
            self.take_offline(directory, failure)
            raise

    # What the server calls from time to time

    def apply_retention(self, log: PartitionLog, high_watermark: int) -> bool:
        """Let a log drop what its topic no longer keeps; return True if there may be more of it.

        Raises NotReadyError.
        """
        if log.failure is not None or not self.holds(log):
            return False
        try:
            removed = log.apply_retention(self._surroundings.clock.wall_ms(), high_watermark)
        except (KafkaError, DiskFailure) as error:  # no space for a new segment, or damage: the others go on
            logger.warning("Retention leaves %s-%s as it is: %s", log.topic, log.partition, error)
            return False
        return len(removed) >= SEGMENTS_AT_ONCE

    def remove_later(self, pending: PendingDeletion) -> None:
        """Schedule the removal of renamed files, by the monotonic clock: the wall clock may be set back."""
        self._pending.append((self._surroundings.clock.monotonic_ms() + pending.delay_ms, pending.paths))

    def take_due_files(self) -> list[str]:
        """Files and directories whose time to go has come; whoever takes them calls remove_files."""
        now_ms = self._surroundings.clock.monotonic_ms()
        due = [paths for due_ms, paths in self._pending if due_ms <= now_ms]
        self._pending = [(due_ms, paths) for due_ms, paths in self._pending if due_ms > now_ms]
        return [path for paths in due for path in paths]

    def remove_files(self, paths: Iterable[str]) -> None:
        """Remove what nobody uses any more. May be called on a worker: the system takes a while for a large file."""
        leftovers.remove(self._disk, paths)

    def logs_to_flush(self) -> list[PartitionLog]:
        """Logs whose flush.ms or a closed segment asks for a flush."""
        return [log for log in self.logs() if log.failure is None and log.flush_due()]

    def begin_flush(self, log: PartitionLog) -> FlushJob | None:
        """A job that a worker may run, and that finish_flush ends; None if the log was taken away meanwhile."""
        return log.begin_flush() if self.holds(log) else None

    def finish_flush(self, log: PartitionLog, job: FlushJob) -> None:
        """Take the result of a job that has run. Nobody waits for that of a log that was taken away during it."""
        if self.holds(log):
            log.finish_flush(job)
        else:
            job.release()

    def holds(self, log: PartitionLog) -> bool:
        """Return whether this is the open log of its partition: not deleted, moved or closed."""
        return self.get(log.topic, log.partition) is log

    def expire_producers(self, log: PartitionLog, expiration_ms: int) -> None:
        """Forget a log's producers that were silent for producer.id.expiration.ms."""
        log.producers.expire(self._surroundings.clock.wall_ms(), expiration_ms)

    def begin_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int], names: Iterable[str] = LOADED_FILES
    ) -> list[CheckpointJob]:
        """Every directory's checkpoint files, or some of them. A worker may run a job; finish_checkpoint follows."""
        return [
            directory.checkpoint_job(self._disk, name, high_watermarks)
            for directory in self.directories
            if not directory.is_offline
            for name in names
        ]

    def finish_checkpoint(self, job: CheckpointJob) -> bool:
        """Put a written file in its place; False if it was overtaken, and is dropped, or if its directory fails."""
        (directory,) = (directory for directory in self.directories if directory.path == job.directory)
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
            # What stands there is older and as true: a start costs more of a scan. Space may be found.
            if job.name not in directory.short_of_space:  # a checkpoint is tried every few seconds
                directory.short_of_space.add(job.name)
                logger.warning("The disk is full: %s/%s stays as it was", job.directory, job.name)
        except DiskFailure as failure:
            self.take_offline(directory, failure)
        return False

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write all checkpoint files, here and now."""
        for job in self.begin_checkpoints(high_watermarks):
            job.run()
            self.finish_checkpoint(job)

    def write_lowered(self, directory: LogDirectory, log_starts: bool = False) -> None:
        """At once: what is cut next must not look damaged, or clean, after a crash. Without space, nothing is cut."""
        if not directory.is_offline:
            more = {CLEANER_FILE: directory.named.get(CLEANER_FILE), LOG_START_FILE: log_starts}
            names = [RECOVERY_POINT_FILE, *filter(more.get, more)]
            self.guard(directory, partial(self.write_checkpoints, directory, names))

    def write_checkpoints(self, directory: LogDirectory, names: Iterable[str]) -> None:
        directory.checkpoints_written += 1
        for name in names:
            offsets = directory.offsets_of(name)
            write_offsets(self._disk, f"{directory.path}/{name}", offsets)
            directory.named[name] = offsets.keys()

    # The end

    def close(
        self,
        *,
        clean: bool,
        broker_epoch: int = -1,
        high_watermarks: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        """Close every log, and release the log directories: here and now, without workers."""
        run_here(self.closing(clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks))
        self._release()

    def closing(
        self, *, clean: bool, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int]
    ) -> Iterator[Stage]:
        """The stages that close every log. A clean close flushes them, and says so in a file in the end.

        The locks stay with who gave them.
        """
        return LogClosing(
            self,
            self._disk,
            self._surroundings.clock,
            clean=clean,
            broker_epoch=broker_epoch,
            high_watermarks=high_watermarks,
        ).stages()

    def take_offline(self, directory: LogDirectory, failure: DiskFailure) -> None:
        """What one file of a device did, the others may do: no log of the directory is used any more."""
        directory.fail(failure)

    def _release(self) -> None:
        for directory in self.directories:
            if directory.lock is not None:
                directory.lock.release()
