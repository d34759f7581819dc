"""All logs of a broker: one directory per partition in one or more log directories.

Partition directories are "topic-partition"; "topic-partition.<32 hex digits>-delete" is one whose files wait for their
removal. Other directories are left alone and named in the broker's log.
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
    """The logs of all partitions on this broker."""

    def __init__(
        self, paths: Iterable[str], surroundings: Surroundings, *, locks: Mapping[str, DiskLock] | None = None
    ) -> None:
        """Open the directories; see LogDirectories."""
        self._surroundings = surroundings
        self.directories = LogDirectories(paths, surroundings.disk, surroundings.clock, locks=locks)
        self.deletions = Deletions(self.directories, surroundings.disk)
        self.closed = ClosedLogs(self.directories, self.deletions, surroundings)
        self.futures = FutureLogs(self.directories, self.closed, surroundings)

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The open log of a partition."""
        return self.directories.get(topic, partition)

    def logs(self) -> Iterator[PartitionLog]:
        """Every open log."""
        return self.directories.logs()

    def load_all(self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None) -> int:
        """Open every partition that is on disk, here and now, and return their number. Raises LogDirectoryError."""
        loading = self.loading(config_of, topic_id_of)
        run_here(loading.stages())
        return loading.opened

    def loading(
        self, config_of: Callable[[str], LogConfig], topic_id_of: TopicIdOf | None = None, *, at_once: int = 1
    ) -> LogLoading:
        """The stages that open every partition that is on disk, `at_once` of them at the same time."""
        return LogLoading(
            self.directories, self.futures, self.closed, self._surroundings, config_of, topic_id_of, at_once
        )

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

    def _open(
        self, directory: LogDirectory, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None
    ) -> PartitionLog:
        key = (topic, partition)
        directories = self.directories
        naming = [name for name, keys in directory.named.items() if key in keys]
        if naming and not directories.has_directory(directory, f"{topic}-{partition}"):
            # An earlier topic of this name was deleted. After a crash its offsets would be taken for those of the new
            # one: its records below the old log start would be gone, and those below the old high watermark committed.
            directory.forget(key)
            directories.guard(directory, partial(directories.write_checkpoints, directory, naming))
        log = directories.guard(directory, directory.opening(key, config, self._surroundings, topic_id))
        directories.take_opened(directory, log)
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition away: its directory is renamed now and removed after file.delete.delay.ms."""
        self.delete_all([(topic, partition)])

    def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions away, durably together. What a failing device does not let go, a later start sets aside."""
        self.rename_deleted(partitions)
        self.deletions.settle()

    def rename_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Close the logs of partitions and rename their directories; `deletions` makes that durable.

        What a failing device does not let go, a later start sets aside.
        """
        for key in partitions:
            log = self.get(*key)
            if log is None:
                continue
            self.futures.abandon(*key)
            directory, delay_ms = self.directories.directory_of(log), log.config.file_delete_delay_ms
            with suppress(DiskFailure):  # the directory is offline, and says why
                path = self.closed.take_away(log, directory, "delete")
                self.directories.remove_later(PendingDeletion(delay_ms, [path]))
                self.deletions.renamed(directory, key)

    def set_aside(self, topic: str, partition: int) -> str:
        """Take a partition away that the metadata does not know; its directory stays, under the name returned.

        The metadata may be what is damaged: nobody's data is removed on its word alone.
        """
        log = self.get(topic, partition)
        assert log is not None
        return self.closed.set_open_aside(log)

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
        self.directories.release()

    def closing(
        self, *, clean: bool, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int]
    ) -> Iterator[Stage]:
        """The stages that close every log. A clean close flushes them, and says so in a file in the end.

        The locks stay with who gave them.
        """
        return LogClosing(
            self.directories,
            self._surroundings.disk,
            self._surroundings.clock,
            clean=clean,
            broker_epoch=broker_epoch,
            high_watermarks=high_watermarks,
        ).stages()
