"""Deletion of partitions' logs: directories are renamed at once, made durable together, and removed later.

A power failure may undo a rename that is not durable. The next start then finds a log that is not in the metadata, and
sets it aside. A new log of the same name waits until the rename is durable: `sync_before_reuse`.
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


class SyncRenamesJob:
    """Sync of a log directory in which partitions were renamed."""

    def __init__(
        self,
        directories: LogDirectories,
        disk: Disk,
        directory: LogDirectory,
        renames: dict[TopicPartition, int],
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._directory = directory
        self._unsynced = renames
        self._covered = dict(renames)
        self.failure: DiskFailure | None = None
        with suppress(DiskFailure):  # the directory is offline, which is already logged
            directories.write_cleaner_checkpoint(directory)
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
            if self._unsynced.get(key) == number:  # else the name was reused, and renamed again after the sync
                del self._unsynced[key]
        if self.failure is not None:
            self._directories.take_offline(self._directory, self.failure)


class Deletions:
    """Deleted partitions whose directory renames are not durable."""

    def __init__(self, directories: LogDirectories, disk: Disk) -> None:
        self._directories = directories
        self._disk = disk
        self._unsynced: dict[str, dict[TopicPartition, int]] = {}
        """Number of the last rename of each partition, by log directory."""
        self._renames = 0

    @property
    def has_unsynced(self) -> bool:
        """True if a directory has renames that are not synced."""
        return any(self._unsynced.values())

    def renamed(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Record the rename of a partition's directory, which is not durable yet."""
        self._renames += 1
        self._unsynced.setdefault(directory.path, {})[key] = self._renames

    def sync_jobs(self) -> Iterator[SyncRenamesJob]:
        """Yield the jobs that make the renames durable, one for each log directory; a worker may call their run()."""
        for directory in self._directories:
            renames = self._unsynced.get(directory.path)
            if renames:
                yield SyncRenamesJob(self._directories, self._disk, directory, renames)

    def sync(self) -> None:
        """Make the renames durable synchronously. Raises DiskFullError if no file descriptor is left."""
        for job in self.sync_jobs():
            job.run()
            job.finish()
            if isinstance(job.failure, DiskFullError):
                raise job.failure

    def sync_before_reuse(self, topic: str, partition: int) -> None:
        """Make the renames durable synchronously if the earlier log of this partition is one of them.

        Raises DiskFullError if no file descriptor is left; the name must not be used yet.
        """
        if any((topic, partition) in renames for renames in self._unsynced.values()):
            self.sync()
