"""Making a log durable: what to write, the part that waits for the disk (which a worker may do), what to note then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.log.disk import Disk, DiskFailure, DiskFile

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog


class FlushJob:
    """Files and directories to sync up to end_offset. Made and released on the loop; run() may be anywhere."""

    def __init__(
        self,
        disk: Disk,
        files: Sequence[DiskFile],
        paths: Sequence[str],
        end_offset: int,
        epochs_version: int,
        truncations: int,
    ) -> None:
        self._disk = disk
        self._files = files
        self.paths = paths
        self.end_offset = end_offset
        self.epochs_version = epochs_version
        self.truncations = truncations
        self.failure: DiskFailure | None = None
        for file in files:
            file.pin()

    def run(self) -> None:
        """Sync everything; the first failure ends it and is kept: repeating a failed fsync would prove nothing."""
        try:
            for file in self._files:
                file.sync()
            for path in self.paths:
                if self._disk.is_directory(path):
                    self._disk.sync_directory(path)
                else:
                    self._disk.sync_file(path)
        except DiskFailure as failure:
            self.failure = failure

    def release(self) -> None:
        for file in self._files:
            file.unpin()
        self._files = ()


def begin(log: PartitionLog) -> FlushJob:
    """Write what is only in memory and name all that must be synced. Raises DiskFullError, DiskFailure."""
    files: list[DiskFile] = []
    for segment in log.segments.from_offset(log.recovery_point):
        files += [segment.file, *segment.write_indexes()]
        if segment.transaction_index.has_new_name:
            segment.transaction_index.has_new_name = False
            log.unsynced_paths.add(log.directory)
    epochs = log.leader_epochs
    epochs.write()
    paths = sorted(log.unsynced_paths - {log.directory})
    if epochs.version != epochs.durable_version:
        paths.append(epochs.path)
    if paths or log.directory in log.unsynced_paths:
        paths.append(log.directory)  # last: a name must not become durable before what it stands for
    log.unsynced_paths.clear()  # a name that is made while the job runs waits for the next one
    return FlushJob(log.disk, files, paths, log.log_end_offset, epochs.version, log.truncations)


def finish(log: PartitionLog, job: FlushJob) -> None:
    """Note what has become durable; what was written in the place of what was cut meanwhile is not."""
    if job.truncations == log.truncations:
        log.recovery_point = max(log.recovery_point, job.end_offset)
    log.leader_epochs.durable_version = max(log.leader_epochs.durable_version, job.epochs_version)
