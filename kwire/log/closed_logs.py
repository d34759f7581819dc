"""Logs that are on disk but not open: damaged logs, and logs of an earlier topic of the same name.

The topic of a directory is read from its partition.metadata before any other file in it is used. A log of an earlier
topic, however damaged, must not prevent the creation of the new topic's log.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from kwire.log.checkpoints import TopicPartition
from kwire.log.config import LogConfig
from kwire.log.deletions import Deletions
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError
from kwire.log.files import PendingDeletion
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, read_topic_id

logger = logging.getLogger(__name__)

DIRECTORY_NAME_MAX: Final = 255


class ClosedLogs:
    """Directories of partitions whose logs are not open: rename and delete them."""

    def __init__(self, directories: LogDirectories, deletions: Deletions, surroundings: Surroundings) -> None:
        self._directories = directories
        self._deletions = deletions
        self._surroundings = surroundings

    def set_aside_if_foreign(self, directory: LogDirectory, key: TopicPartition, topic_id: uuid.UUID | None) -> bool:
        """Rename a partition's directory if it names another topic id; return True if it did.

        Raises DiskFailure.
        """
        try:
            found = self._topic_id(directory, key)
        except CorruptLogError:  # no evidence that it belongs to another topic
            return False
        if found is None or topic_id in (None, found):
            return False
        self.set_aside(directory, key, f"it belongs to topic id {found}, not to {topic_id}")
        return True

    def set_aside_wrong_copy(self, directory: LogDirectory, other: PartitionLog, topic_id: uuid.UUID | None) -> bool:
        """Set aside the wrong one of two logs of a partition; return False if neither can be identified as wrong.

        `other` is open, the second log is in `directory`. One has another topic id when a log directory returns after
        its topic was deleted and created again. One has no topic id when its device failed during its creation, so that
        the log was created in the other directory. Raises DiskFailure.
        """
        key = (other.topic, other.partition)
        if self.set_aside_if_foreign(directory, key, topic_id):
            return True
        has_topic_id = self.has_topic_id(directory, key)
        if other.topic_id not in (None, topic_id):
            self._set_aside_logged(other, f"it belongs to topic id {other.topic_id}")
        elif other.topic_id is None and (has_topic_id or other.log_end_offset == 0):
            self._set_aside_logged(other, "its creation was not completed")
        elif other.topic_id is not None and not has_topic_id:
            self.set_aside(directory, key, "its creation was not completed")
        else:
            return False
        return True

    def _set_aside_logged(self, log: PartitionLog, reason: str) -> None:
        old_path = log.directory
        path = self.set_aside_open(log)
        logger.warning("%s: set aside as %s: %s", old_path, path, reason)

    def set_aside_open(self, log: PartitionLog) -> str:
        """Close an open log, rename its directory, which is kept, and return the new path. Raises DiskFailure."""
        directory = self._directories.directory_of(log)
        path = self.close_and_rename(log, directory, "stray")
        self._directories.sync_removals(directory)
        return path

    def close_and_rename(self, log: PartitionLog, directory: LogDirectory, kind: str) -> str:
        """Close an open log, rename its directory, and return the new path. Raises DiskFailure."""
        log.close(clean=False)
        log.health.on_failure = None  # a flush may be running; its failure must not take the directory offline
        return self.rename_closed(log.directory, directory, (log.topic, log.partition), kind, moved=log.moved_to)

    def set_aside(self, directory: LogDirectory, key: TopicPartition, reason: str) -> None:
        """Rename a partition's directory, which is kept under its new name. Raises DiskFailure."""
        path = self.rename_closed(f"{directory.path}/{key[0]}-{key[1]}", directory, key, "stray")
        self._directories.guard(directory, partial(self._surroundings.disk.sync_directory, directory.path))
        logger.warning("%s-%d: set aside as %s: %s", *key, path, reason)

    def has_topic_id(self, directory: LogDirectory, key: TopicPartition) -> bool:
        """Return False if a directory may belong to an earlier topic. Raises DiskFailure."""
        try:
            return self._topic_id(directory, key) is not None
        except CorruptLogError:
            return True

    def _topic_id(self, directory: LogDirectory, key: TopicPartition) -> uuid.UUID | None:
        """Return the topic id of a partition's directory. Raises CorruptLogError or DiskFailure."""
        path = f"{directory.path}/{key[0]}-{key[1]}"
        was_flushed = directory.was_clean_shutdown or directory.recovery_points.get(key, 0) > 0
        read = partial(read_topic_id, self._surroundings.disk, path, was_flushed=was_flushed)
        return self._directories.guard(directory, read)

    def delete(self, partitions: Iterable[TopicPartition]) -> None:
        """Rename the directories of deleted partitions; their files are removed after file.delete.delay.ms.

        The renames become durable with those of other deletions (deletions.py). A directory that a failing device
        cannot rename stays until its name is used again; later starts ignore it.
        """
        for key in partitions:
            for directory in self._directories:
                with suppress(DiskFailure):
                    self._delete(directory, key)

    def _delete(self, directory: LogDirectory, key: TopicPartition) -> None:
        directories = self._directories
        if directory.is_offline or not directories.has_directory(directory, f"{key[0]}-{key[1]}"):
            return
        path = self.rename_closed(f"{directory.path}/{key[0]}-{key[1]}", directory, key, "delete")
        directories.remove_later(PendingDeletion(LogConfig().file_delete_delay_ms, [path]))
        self._deletions.renamed(directory, key)

    def rename_closed(
        self,
        old_path: str,
        directory: LogDirectory,
        key: TopicPartition,
        kind: str,
        *,
        moved: Callable[[str], None] = lambda _: None,
    ) -> str:
        """Rename the directory of a partition whose log is closed, and return the new path.

        Calls `moved` with the new path even on failure. Raises DiskFailure.
        """
        topic, partition = key
        suffix = f"-{partition}.{self._surroundings.random_source.uuid().hex}-{kind}"
        path = f"{directory.path}/{topic[: DIRECTORY_NAME_MAX - len(suffix)]}{suffix}"
        try:
            self._rename_or_remove(directory, old_path, path, can_remove=kind == "delete")
        except DiskFailure:
            directory.keep_closed(key)
            raise
        else:
            directory.remove(key)
        finally:
            moved(path)
            directory.checkpoints_written += 1  # running checkpoint jobs have an outdated offset for it
        return path

    def _rename_or_remove(self, directory: LogDirectory, old_path: str, path: str, *, can_remove: bool) -> None:
        guard, disk = self._directories.guard, self._surroundings.disk
        try:
            guard(directory, partial(disk.rename, old_path, path))
        except DiskFullError:  # not even enough space for a longer name
            if not can_remove:
                raise
            guard(directory, partial(disk.remove_directory, old_path))
