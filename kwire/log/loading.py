"""Opening of the logs on disk at start: several at once, with recovery of each log after a crash.

A worker opens a log with its own file descriptors and indexes; they are counted with all others when its job ends. Log
directories are opened one after another: if a partition has a directory in two of them, the choice is made once the
first of its logs is open.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from kwire.log import leftovers
from kwire.log.checkpoints import TopicPartition
from kwire.log.closed_logs import ClosedLogs
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.files import METADATA_DIRECTORY, PendingDeletion
from kwire.log.future_logs import FutureLogs
from kwire.log.index_memory import INDEX_BYTES_MAX, IndexMemory
from kwire.log.jobs import Stage
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory, LogDirectoryError
from kwire.log.partition_log import PartitionLog
from kwire.log.progress import Progress
from kwire.log.recovery import Surroundings
from kwire.protocol.error_codes import KafkaError

logger = logging.getLogger(__name__)

TopicIdOf = Callable[[str], uuid.UUID | None]
"""Function that returns a topic's id by its name; None if the metadata have no such topic."""
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_STRAY_DIRECTORY: Final = re.compile(r".*\.[0-9a-f]{32}-(stray|future)")


class OpenJob:
    """Job that opens one log."""

    def __init__(self, loading: LogLoading, directory: LogDirectory, key: TopicPartition, config: LogConfig) -> None:
        self._loading = loading
        self._directory = directory
        self._key = key
        world = loading.surroundings
        self._disk = world.disk.part(loading.at_once)
        indexes = IndexMemory(INDEX_BYTES_MAX // max(8, loading.at_once))
        own = Surroundings(disk=self._disk, clock=world.clock, random_source=world.random_source, indexes=indexes)
        self._open = directory.opening(key, config, own)
        self._log: PartitionLog | None = None
        self._failure: DiskFailure | KafkaError | None = None

    def run(self) -> None:
        """Open the log, with recovery if needed; finish handles a failure."""
        try:
            self._log = self._open()
        except (DiskFailure, KafkaError) as failure:
            self._failure = failure

    def finish(self) -> None:
        """Pass the log to the log manager. A damaged log stays closed until repaired from a replica or manually."""
        self._loading.surroundings.disk.adopt(self._disk)
        if self._log is not None:
            self._log.segments.share(self._loading.surroundings.indexes)
            self._loading.opened_log(self._directory, self._log)
        else:
            self._loading.failed(self._directory, self._key, self._failure)
        self._loading.count_one()


class LogLoading:
    """Opening of all logs of the log directories, in stages."""

    def __init__(
        self,
        directories: LogDirectories,
        futures: FutureLogs,
        closed: ClosedLogs,
        surroundings: Surroundings,
        config_of: Callable[[str], LogConfig],
        topic_id_of: TopicIdOf | None,
        at_once: int,
    ) -> None:
        self._directories = directories
        self._futures = futures
        self._closed = closed
        self.at_once = at_once
        """Number of logs that are opened at the same time."""
        self.surroundings = surroundings
        self._config_of = config_of
        self._topic_id_of = topic_id_of
        self._progress: Progress
        self.opened = 0

    def stages(self) -> Iterator[Stage]:
        """Yield one stage for each log directory that is not loaded. Raises LogDirectoryError."""
        directories = [directory for directory in self._directories if not directory.is_loaded]
        if directories:
            self._futures.resolve_interrupted_moves()
        for directory in directories:
            yield self._logs(directory)
            directory.is_loaded = True
            if any(log.recovery_point < directory.recovery_points.get(key, 0) for key, log in directory.logs.items()):
                with suppress(DiskFailure):  # the failure took it offline, unless the disk is full
                    self._directories.write_lowered(directory)  # new records at lost offsets are not durable

    def _logs(self, directory: LogDirectory) -> Stage:
        found = self._partitions_in(directory)
        is_clean = directory.was_clean_shutdown
        what = f"Recovering the logs of {directory.path}, which was not shut down cleanly"
        if is_clean:
            what = f"Loading the logs of {directory.path}"
        self._progress = Progress(what, len(found), self.surroundings.clock, quiet=is_clean or not found)
        for topic, partition in found:
            if directory.is_offline:
                return
            if (topic, partition) in directory.logs:
                self.count_one()
            else:
                yield OpenJob(self, directory, (topic, partition), self._config_of(topic))

    def count_one(self) -> None:
        """Count a log that was opened or stays closed."""
        self._progress.count_one()

    def opened_log(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Register an opened log."""
        self._directories.add_opened(directory, log)
        self.opened += 1

    def failed(self, directory: LogDirectory, key: TopicPartition, failure: Exception | None) -> None:
        """Log that a log cannot be opened; the broker continues. A device failure takes the log directory offline."""
        if isinstance(failure, DiskFailure) and not isinstance(failure, DiskFullError):
            self._directories.take_offline(directory, failure)
        logger.error("Cannot open the log of %s-%s: %s", *key, failure)

    def _partitions_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """Return the partitions that have a directory in this log directory."""
        if directory.is_offline:
            return []
        disk = self.surroundings.disk
        try:
            names = disk.list(directory.path)
            is_directory = {name: disk.is_directory(f"{directory.path}/{name}") for name in names}
        except DiskFailure as failure:
            self._directories.take_offline(directory, failure)
            return []
        _remove_missing(directory, set(names))
        candidates = [name for name in names if name != METADATA_DIRECTORY and is_directory[name]]
        return [key for name in candidates if (key := self._recognise(directory, name)) is not None]

    def _recognise(self, directory: LogDirectory, name: str) -> TopicPartition | None:
        directories = self._directories
        path = f"{directory.path}/{name}"
        if leftovers.DELETED_DIRECTORY.fullmatch(name):
            directories.remove_later(PendingDeletion(0, [path]))
            return None
        match = _PARTITION_DIRECTORY.fullmatch(name)
        if match is None or _STRAY_DIRECTORY.fullmatch(name):
            logger.warning("Ignoring %s: it is not a partition directory", path)
            return None
        topic_partition = (match[1], int(match[2]))
        other = directories.get(*topic_partition)
        if other is None or other.directory == path:
            return topic_partition
        topic_id_of = self._topic_id_of
        try:
            is_resolved = topic_id_of is not None and self._closed.set_aside_wrong_copy(
                directory, other, topic_id_of(match[1])
            )
        except DiskFailure as failure:  # the failure took one of the two directories offline, unless the disk is full
            is_resolved = not isinstance(failure, DiskFullError)
        if not is_resolved:
            raise LogDirectoryError(f"log.dirs: {path} and {other.directory} are logs of the same partition")
        return topic_partition if not directory.is_offline and directories.get(*topic_partition) is None else None


def _remove_missing(directory: LogDirectory, names: AbstractSet[str]) -> None:
    """Drop missing partitions from the checkpoints, which still contain one that was moved just before a crash."""
    for key in {key for offsets in directory.named.values() for key in offsets}:
        if f"{key[0]}-{key[1]}" not in names:
            directory.remove(key)
