"""Closing logs: one log, and all logs of a broker. A clean close makes them durable, then writes a marker file.

Everything that a clean shutdown marker guarantees is durable before the marker is written: first the logs, several at
once, then the names of their directories, then the checkpoints. All logs reject appends from the beginning, so that a
request still in progress writes nothing after a flush. A log directory gets no marker if its disk fails during the
close, or if one of its logs could not be flushed. One log line gives the reason, and the next start recovers the
directory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest

from kwire.log.checkpoints import CLEAN_SHUTDOWN_FILE, CheckpointJob, TopicPartition, format_clean_shutdown
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.errors import LogClosedError
from kwire.log.flushing import FlushJob
from kwire.log.jobs import Stage
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory
from kwire.log.partition_log import PartitionLog
from kwire.log.progress import Progress
from kwire.protocol.error_codes import KafkaError
from kwire.seams import Clock

logger = logging.getLogger(__name__)


class CloseJob:
    """Job that closes one log."""

    def __init__(self, closing: LogClosing, directory: LogDirectory, log: PartitionLog) -> None:
        self._closing = closing
        self._directory = directory
        self._log = log
        self._flush: FlushJob | None = None
        if closing.begins(directory, log):
            try:
                self._flush = log.begin_last_flush()
            except (DiskFailure, KafkaError) as failure:
                closing.failed(directory, log, failure)

    def run(self) -> None:
        """Sync the log's files."""
        if self._flush is not None:
            self._flush.run()

    def finish(self) -> None:
        """Record the result of the flush and close the log, so that nothing is written any more."""
        log, closing = self._log, self._closing
        try:
            if self._flush is not None:
                log.finish_flush(self._flush)
            if log.log_end_offset > log.recovery_point:  # not all of it was flushed
                closing.mark_unclean(self._directory, log, f"durable up to {log.recovery_point} only")
        except DiskFailure as failure:
            closing.failed(self._directory, log, failure)
        finally:
            log.release_files()
            log.health.end(LogClosedError(f"the log of {log.topic}-{log.partition} is closed"))
            closing.count_one(self._directory)


class SyncNamesJob:
    """Job that syncs directories that contain names of logs, each once for all logs."""

    def __init__(self, closing: LogClosing, directory: LogDirectory, disk: Disk, paths: Iterable[str]) -> None:
        self._closing = closing
        self._directory = directory
        self._disk = disk
        self._paths = list(paths)
        self._failure: DiskFailure | None = None

    def run(self) -> None:
        """Sync the directories; finish handles a failure."""
        try:
            for path in self._paths:
                self._disk.sync_directory(path)
        except DiskFailure as failure:
            self._failure = failure

    def finish(self) -> None:
        """Take the log directory offline if its disk failed; without space or descriptors it only gets no marker."""
        if isinstance(self._failure, DiskFullError):
            self._closing.names_not_durable(self._directory, self._failure)
        elif self._failure is not None:
            self._directory.fail(self._failure)


class CheckpointFileJob:
    """Job that writes one checkpoint file."""

    def __init__(self, directories: LogDirectories, job: CheckpointJob) -> None:
        self._directories = directories
        self._job = job

    def run(self) -> None:
        """Write the new file beside the old one and sync it."""
        self._job.run()

    def finish(self) -> None:
        """Rename the new file into place."""
        self._directories.finish_checkpoint(self._job)


class CleanShutdownMarkerJob:
    """Job that writes the clean shutdown marker of a log directory, after everything else there."""

    def __init__(self, directory: LogDirectory, disk: Disk, broker_epoch: int) -> None:
        self._directory = directory
        self._disk = disk
        self._broker_epoch = broker_epoch
        self._failure: DiskFailure | None = None
        logger.info("Writing clean shutdown marker at %s with broker epoch=%d", directory.path, broker_epoch)

    def run(self) -> None:
        """Write the file durably; finish handles a failure."""
        path = f"{self._directory.path}/{CLEAN_SHUTDOWN_FILE}"
        try:
            self._disk.replace(path, format_clean_shutdown(self._broker_epoch), sync=True)
        except DiskFailure as failure:
            self._failure = failure

    def finish(self) -> None:
        """Log why there is no marker, or take the log directory offline."""
        if isinstance(self._failure, DiskFullError):
            logger.error("%s: the next start recovers its logs: %s", self._directory.path, self._failure)
        elif self._failure is not None:
            self._directory.fail(self._failure)


class LogClosing:
    """Close of all logs of the log directories, in stages."""

    def __init__(
        self,
        directories: LogDirectories,
        disk: Disk,
        clock: Clock,
        *,
        clean: bool,
        broker_epoch: int,
        high_watermarks: Mapping[TopicPartition, int],
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._clock = clock
        self._clean = clean
        self._broker_epoch = broker_epoch
        self._high_watermarks = high_watermarks
        self._unclean: dict[str, str] = {}
        """First reason by path, for each log directory that gets no marker."""
        self._names: dict[str, dict[str, None]] = {}
        """Directories outside of logs that contain names of new logs and are not synced, by log directory."""
        self._progress: dict[str, Progress] = {}

    def stages(self) -> Iterator[Stage]:
        """Yield the stages: flush and close the logs; if the close is clean, then names, checkpoints and markers."""
        self._directories.is_closing = True
        for log in self._directories.logs():
            log.health.is_closing = True
        for directory in self._directories:
            for future in directory.futures.values():
                future.close(clean=False)
            if not self._clean:
                for log in directory.logs.values():
                    log.close(clean=False)
                if directory.logs:
                    self._unclean[directory.path] = "the broker failed, or did not start"
                    self._log_missing_marker(directory)
        if self._clean:
            yield self._logs()
            yield self._sync_names()
            yield self._checkpoints()
            yield self._mark_clean()

    def _logs(self) -> Stage:
        """Yield the jobs of the log directories in turns, so that all disks are busy."""
        per_directory = []
        for directory in self._directories:
            logs = list(directory.logs.values())
            per_directory.append([(directory, log) for log in logs])
            if logs:
                what = f"Flushing and closing logs at {directory.path}"
                self._progress[directory.path] = Progress(what, len(logs), self._clock)
        for found in chain.from_iterable(zip_longest(*per_directory)):
            if found is not None:
                yield CloseJob(self, *found)

    def begins(self, directory: LogDirectory, log: PartitionLog) -> bool:
        """Return True if a log can be flushed. A directory that holds several logs is synced once for all of them."""
        if log.failure is not None:
            self.mark_unclean(directory, log, f"offline: {log.failure}")
            return False
        parent = log.directory.rpartition("/")[0] or "/"
        if parent in log.unsynced_paths:
            log.unsynced_paths.discard(parent)
            self._names.setdefault(directory.path, {})[parent] = None
        return True

    def failed(self, directory: LogDirectory, log: PartitionLog, failure: DiskFailure | KafkaError) -> None:
        """Record that a log could not be made durable. A failure of the log or directory itself was logged before."""
        self.mark_unclean(directory, log, f"not flushed: {failure}")
        if log.failure is None:
            logger.error("%s-%s is not closed cleanly: %s", log.topic, log.partition, failure)

    def mark_unclean(self, directory: LogDirectory, log: PartitionLog, reason: str) -> None:
        """Do not write a marker into this log directory."""
        self._unclean.setdefault(directory.path, f"{log.topic}-{log.partition} is {reason}")

    def names_not_durable(self, directory: LogDirectory, failure: DiskFullError) -> None:
        """Do not write a marker into this log directory, because a power failure may remove new logs from it."""
        self._unclean.setdefault(directory.path, f"names of its logs are not durable: {failure}")

    def count_one(self, directory: LogDirectory) -> None:
        """Count a closed log."""
        self._progress[directory.path].count_one()

    def _sync_names(self) -> Stage:
        for directory in self._directories:
            paths = self._names.get(directory.path)
            if paths and not directory.is_offline:
                yield SyncNamesJob(self, directory, self._disk, paths)

    def _checkpoints(self) -> Stage:
        for job in self._directories.begin_checkpoints(self._high_watermarks):
            yield CheckpointFileJob(self._directories, job)

    def _mark_clean(self) -> Stage:
        for directory in self._directories:
            if self.is_clean(directory):
                yield CleanShutdownMarkerJob(directory, self._disk, self._broker_epoch)
            else:
                self._log_missing_marker(directory)

    def _log_missing_marker(self, directory: LogDirectory) -> None:
        """Log why the next start recovers this log directory."""
        reason = f"it is offline: {directory.failure}" if directory.is_offline else self._unclean[directory.path]
        logger.warning("%s gets no clean shutdown marker, and the next start recovers it: %s", directory.path, reason)

    def is_clean(self, directory: LogDirectory) -> bool:
        """Return True if everything that a marker guarantees is durable."""
        return not directory.is_offline and directory.path not in self._unclean
