"""Deletion of partitions' logs: directories are renamed at once, made durable together, and removed later.

A rename that is not durable may be undone by a power cut. A start then finds a log that the metadata do not know, and
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
        self, directories: LogDirectories, disk: Disk, directory: LogDirectory, unsettled: dict[TopicPartition, int]
    ) -> None:
        self._directories = directories
        self._disk = disk
        self._directory = directory
        self._unsettled = unsettled
        self._covered = dict(unsettled)
        self.failure: DiskFailure | None = None
        with suppress(DiskFailure):  # the directory is offline, and says why
            directories.forget_cleaned(directory)
        self._is_due = not directory.is_offline  # a failed sync is never tried again

    def run(self) -> None:
        """Sync; a failure is kept for finish."""
        if not self._is_due:
            return
        try:
            self._disk.sync_directory(self._directory.path)
        except DiskFailure as failure:
            self.failure = failure

    def finish(self) -> None:
        """Note what is durable; a directory whose disk has failed goes offline.

        Without a descriptor nothing was synced: the renames stay unsettled, and a later job tries again.
        """
        if isinstance(self.failure, DiskFullError):
            logger.warning("Deleted logs are not durably gone yet: %s", self.failure)
            return
        for key, number in self._covered.items():
            if self._unsettled.get(key) == number:  # else its name was used again, and renamed after the sync
                del self._unsettled[key]
        if self.failure is not None:
            self._directories.take_offline(self._directory, self.failure)


class Deletions:
    """Deleted partitions whose new directory names are not durable."""

    def __init__(self, directories: LogDirectories, disk: Disk) -> None:
        self._directories = directories
        self._disk = disk
        self._unsettled: dict[str, dict[TopicPartition, int]] = {}
        """By log directory, the number of the last rename of each partition."""
        self._renames = 0

    @property
    def is_any_unsettled(self) -> bool:
        """Return True if a directory waits for its sync."""
        return any(self._unsettled.values())

    def renamed(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Note that the directory of a partition was renamed, and is yet to be settled."""
        self._renames += 1
        self._unsettled.setdefault(directory.path, {})[key] = self._renames

    def settling(self) -> Iterator[SettleJob]:
        """Return the jobs that make the renames durable, whose run() a worker may call: one for each log directory."""
        for directory in self._directories:
            unsettled = self._unsettled.get(directory.path)
            if unsettled:
                yield SettleJob(self._directories, self._disk, directory, unsettled)

    def settle(self) -> None:
        """Make the renames durable, here and now. Raises DiskFullError if no descriptor is left."""
        for job in self.settling():
            job.run()
            job.finish()
            if isinstance(job.failure, DiskFullError):
                raise job.failure

    def settle_for(self, topic: str, partition: int) -> None:
        """Make the renames durable, here and now, if the earlier log of this partition is one of them.

        Raises DiskFullError if no descriptor is left: the name must not be used yet.
        """
        if any((topic, partition) in unsettled for unsettled in self._unsettled.values()):
            self.settle()
