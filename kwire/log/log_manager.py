"""Log manager: all logs of a broker, with one directory per partition in one or more log directories.

Partition directories are named "topic-partition"; "topic-partition.<32 hex digits>-delete" is one that will be removed.
Other directories are not touched; their names are written to the broker's log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from kwire.log.checkpoints import TopicPartition
from kwire.log.closed_logs import ClosedLogs
from kwire.log.closing import LogClosing
from kwire.log.config import LogConfig
from kwire.log.deletions import Deletions
from kwire.log.disk import DiskFailure, DiskLock
from kwire.log.errors import CorruptLogError, LogClosedError
from kwire.log.files import PendingDeletion
from kwire.log.flushing import FlushJob
from kwire.log.future_logs import FutureLogs
from kwire.log.jobs import Stage, run_here
from kwire.log.loading import LogLoading, TopicIdOf
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory, LogDirectoryError
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings
from kwire.log.retention import SEGMENTS_AT_ONCE
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)


class LogManager:
    """Logs of all partitions on this broker."""

    def __init__(
        self, paths: Iterable[str], surroundings: Surroundings, *, locks: Mapping[str, DiskLock] | None = None
    ) -> None:
        """Open the log directories; see LogDirectories."""
        self._surroundings = surroundings
        self.directories = LogDirectories(paths, surroundings.disk, surroundings.clock, locks=locks)
        self.deletions = Deletions(self.directories, surroundings.disk)
        self.closed = ClosedLogs(self.directories, self.deletions, surroundings)
        self.futures = FutureLogs(self.directories, self.closed, surroundings)

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the open log of a partition, or None."""
        return self.directories.get(topic, partition)

    def logs(self) -> Iterator[PartitionLog]:
        """Yield every open log."""
        return self.directories.logs()

    def load_all(self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None) -> int:
        """Open every partition on disk synchronously, and return their number. Raises LogDirectoryError."""
        loading = self.loading(config_of, topic_id_of)
        run_here(loading.stages())
        return loading.opened

    def loading(
        self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None, *, at_once: int = 1
    ) -> LogLoading:
        """Return the stages that open every partition on disk, `at_once` of them at the same time."""
        return LogLoading(
            self.directories, self.futures, self.closed, self._surroundings, config_of, topic_id_of, at_once
        )

    def get_or_create(self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None) -> PartitionLog:
        """Return the partition's log; open or create it if needed.

        A new log is created in the directory with the fewest logs that is not cordoned; a closed log is opened in its
        own.

        A log that is found may be of an earlier topic of this name. It is if a power failure removed its topic id: no
        flush followed the write of the id, so nothing in the log was ever durable. Such a log is set aside.

        Raises CorruptLogError, DiskFailure, or KafkaError if there is no space for it.
        """
        log = self.get(topic, partition) or self._open_somewhere(topic, partition, config, topic_id)
        if topic_id in (None, log.topic_id):
            return log
        if log.topic_id is None and log.log_end_offset == 0:
            self.delete(topic, partition)  # half created; checkpointed offsets may be of an earlier topic
        else:
            path = self.set_aside(topic, partition)
            logger.warning("%s-%d: may belong to another topic; set aside as %s", topic, partition, path)
        return self._open_somewhere(topic, partition, config, topic_id)

    def _open_somewhere(
        self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None
    ) -> PartitionLog:
        if self.directories.is_closing:  # it would not be flushed
            raise LogClosedError(f"the log of {topic}-{partition} is not opened: the broker stops")
        online = [directory for directory in self.directories if not directory.is_offline]
        if not online:
            raise LogDirectoryError("log.dirs: every log directory is offline")
        key = (topic, partition)
        holders = [
            found
            for found in online
            if self.directories.has_directory(found, f"{topic}-{partition}")
            and not self.closed.set_aside_if_foreign(found, key, topic_id)
        ]
        holders = holders or self.futures.preferred(topic, partition, online)
        open_to_new = [directory for directory in online if not directory.is_cordoned]
        directory = min(holders or open_to_new or online, key=lambda candidate: len(candidate.logs))
        try:
            return self._open(directory, topic, partition, config, topic_id)
        except CorruptLogError as error:
            if topic_id is None or self.closed.has_topic_id(directory, key):
                raise
            self.closed.set_aside(directory, key, f"may belong to another topic, and is damaged: {error}")
            return self._open(directory, topic, partition, config, topic_id)

    def _open(
        self, directory: LogDirectory, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None
    ) -> PartitionLog:
        key = (topic, partition)
        directories = self.directories
        naming = [name for name, keys in directory.named.items() if key in keys]
        if naming and not directories.has_directory(directory, f"{topic}-{partition}"):
            # An earlier topic of this name was deleted. Its offsets must not apply to the new topic after a crash:
            # records below the old log start would be deleted, and those below the old high watermark committed.
            directory.remove(key)
            directories.guard(directory, partial(directories.write_checkpoints, directory, naming))
        log = directories.guard(directory, directory.opening(key, config, self._surroundings, topic_id))
        directories.add_opened(directory, log)
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Delete a partition: rename its directory now, and remove it after file.delete.delay.ms."""
        self.delete_all([(topic, partition)])

    def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete partitions, durably together. A later start sets aside those that a failing device cannot rename."""
        self.rename_deleted(partitions)
        self.deletions.sync()

    def rename_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Close the logs of partitions and rename their directories; `deletions` makes the renames durable.

        A later start sets aside directories that a failing device cannot rename.
        """
        for key in partitions:
            log = self.get(*key)
            if log is None:
                continue
            self.futures.abandon(*key)
            directory, delay_ms = self.directories.directory_of(log), log.config.file_delete_delay_ms
            with suppress(DiskFailure):  # the directory is offline, which is already logged
                path = self.closed.close_and_rename(log, directory, "delete")
                self.directories.remove_later(PendingDeletion(delay_ms, [path]))
                self.deletions.renamed(directory, key)

    def set_aside(self, topic: str, partition: int) -> str:
        """Close a partition that is not in the metadata; return the new name under which its directory is kept.

        The directory is not removed, because the metadata themselves may be damaged.
        """
        log = self.get(topic, partition)
        assert log is not None
        return self.closed.set_aside_open(log)

    # Periodic work

    def apply_retention(self, log: PartitionLog, high_watermark: int) -> bool:
        """Apply retention to a log; return True if more segments may be due.

        Raises NotReadyError.
        """
        if log.failure is not None or not self.is_current(log):
            return False
        try:
            removed = log.apply_retention(self._surroundings.clock.wall_ms(), high_watermark)
        except (KafkaError, DiskFailure) as error:  # no space for a new segment, or damage
            logger.warning("Retention leaves %s-%s as it is: %s", log.topic, log.partition, error)
            return False
        return len(removed) >= SEGMENTS_AT_ONCE

    def logs_to_flush(self) -> list[PartitionLog]:
        """Return the logs that are due for a flush by flush.ms or because a segment was closed."""
        return [log for log in self.logs() if log.failure is None and log.is_flush_due()]

    def begin_flush(self, log: PartitionLog) -> FlushJob | None:
        """Return a job that a worker may run, before finish_flush; None if the log was removed meanwhile."""
        return log.begin_flush() if self.is_current(log) else None

    def finish_flush(self, log: PartitionLog, job: FlushJob) -> None:
        """Record the result of a job that has run; only release the job if its log was removed meanwhile."""
        if self.is_current(log):
            log.finish_flush(job)
        else:
            job.release()

    def is_current(self, log: PartitionLog) -> bool:
        """Return True if this is the open log of its partition: not deleted, moved or closed."""
        return self.get(log.topic, log.partition) is log

    def expire_producers(self, log: PartitionLog, expiration_ms: int) -> None:
        """Remove a log's producers that were inactive for producer.id.expiration.ms."""
        log.producers.expire(self._surroundings.clock.wall_ms(), expiration_ms)

    # Closing

    def close(
        self,
        *,
        clean: bool,
        broker_epoch: int = -1,
        high_watermarks: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        """Close every log and release the log directories, synchronously and without workers."""
        run_here(self.closing(clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks))
        self.directories.release()

    def closing(
        self, *, clean: bool, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int]
    ) -> Iterator[Stage]:
        """Return the stages that close every log. A clean close flushes them and finally writes the markers.

        The locks are not released.
        """
        return LogClosing(
            self.directories,
            self._surroundings.disk,
            self._surroundings.clock,
            clean=clean,
            broker_epoch=broker_epoch,
            high_watermarks=high_watermarks,
        ).stages()
