"""Deletion of partitions' logs: directories are renamed at once, made durable together, and removed later.

A power failure may undo a rename that is not durable. The next start then finds a log that is not in the metadata, and
sets it aside. A new log of the same name waits until the rename is durable: `settle_for`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress

from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class SettleJob:
    """Sync of a log directory in which partitions were renamed."""

    def __init__(
        self,
        directories: LogDirectories,
        disk: Disk,
        directory: LogDirectory,
        pending_truncation: dict[TopicPartition, int],
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._directory = directory
        self._unsettled = pending_truncation
        self._covered = dict(pending_truncation)
        self.failure: DiskFailure | None = None
        with suppress(DiskFailure):  # the directory is offline, which is already logged
            directories.forget_cleaned(directory)
        self._is_due = not directory.is_offline  # a failed sync is never retried

    def run(self) -> None:
        """Sync the directory; finish handles a failure."""
        if not self._is_due:
            return
        try:
            self._disk.sync_directory(self._directory.path)
        except DiskFailure as failure:
            self.failure = failure

    def finish(self) -> None:
        """Record the durable renames; take the directory offline if its disk failed.

        Without a file descriptor nothing was synced: the renames stay unsynced, and a later job retries.
        """
        if isinstance(self.failure, DiskFullError):
            logger.warning("The deletion of logs is not durable yet: %s", self.failure)
            return
        for key, number in self._covered.items():
            if self._unsettled.get(key) == number:  # else the name was reused, and renamed again after the sync
                del self._unsettled[key]
        if self.failure is not None:
            self._directories.take_offline(self._directory, self.failure)


class Deletions:
    """Deleted partitions whose directory renames are not durable."""

    def __init__(self, directories: LogDirectories, disk: Disk) -> None:
        self._directories = directories
        self._disk = disk
        self._unsettled: dict[str, dict[TopicPartition, int]] = {}
        """Number of the last rename of each partition, by log directory."""
        self._renames = 0

    @property
    def is_any_unsettled(self) -> bool:
        """True if a directory has renames that are not synced."""
        return any(self._unsettled.values())

    def renamed(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Record the rename of a partition's directory, which is not durable yet."""
        self._renames += 1
        self._unsettled.setdefault(directory.path, {})[key] = self._renames

    def settling(self) -> Iterator[SettleJob]:
        """Yield the jobs that make the renames durable, one for each log directory; a worker may call their run()."""
        for directory in self._directories:
            pending_truncation = self._unsettled.get(directory.path)
            if pending_truncation:
                yield SettleJob(self._directories, self._disk, directory, pending_truncation)

    def settle(self) -> None:
        """Make the renames durable synchronously. Raises DiskFullError if no file descriptor is left."""
        for job in self.settling():
            job.run()
            job.finish()
            if isinstance(job.failure, DiskFullError):
                raise job.failure

    def settle_for(self, topic: str, partition: int) -> None:
        """Make the renames durable synchronously if the earlier log of this partition is one of them.

        Raises DiskFullError if no file descriptor is left; the name must not be used yet.
        """
        if any((topic, partition) in pending_truncation for pending_truncation in self._unsettled.values()):
            self.settle()
