"""Logs that are on disk and not open: damaged ones, and those of an earlier topic of the same name.

Which topic a directory belongs to is read from its partition.metadata, before anything else in it is believed: a log of
an earlier topic must not keep the new one from being made, however damaged it is.
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
    """What happens to directories of partitions whose logs are not open."""

    def __init__(self, directories: LogDirectories, deletions: Deletions, surroundings: Surroundings) -> None:
        self._directories = directories
        self._deletions = deletions
        self._surroundings = surroundings

    def set_foreign_aside(self, directory: LogDirectory, key: TopicPartition, topic_id: uuid.UUID | None) -> bool:
        """Rename a partition's directory if it names another topic id; return True if it did.

        Raises DiskFailure.
        """
        try:
            found = self._topic_id(directory, key)
        except CorruptLogError:  # nothing says that it is of another topic
            return False
        if found is None or topic_id in (None, found):
            return False
        self.set_aside(directory, key, f"it belongs to topic id {found}, not to {topic_id}")
        return True

    def settle_pair(self, directory: LogDirectory, other: PartitionLog, topic_id: uuid.UUID | None) -> bool:
        """Set aside the one of two logs of a partition that is not its log; return False if that is neither.

        `other` is open, the second log is in `directory`. One has another topic id when a log directory returns after
        its topic was deleted and created again. One has none when its device failed while it was made, so that the
        log was made in the other directory. Raises DiskFailure.
        """
        key = (other.topic, other.partition)
        if self.set_foreign_aside(directory, key, topic_id):
            return True
        has_topic_id = self.has_topic_id(directory, key)
        if other.topic_id not in (None, topic_id):
            self._set_open_aside(other, f"it belongs to topic id {other.topic_id}")
        elif other.topic_id is None and (has_topic_id or other.log_end_offset == 0):
            self._set_open_aside(other, "it was never finished")
        elif other.topic_id is not None and not has_topic_id:
            self.set_aside(directory, key, "it was never finished")
        else:
            return False
        return True

    def _set_open_aside(self, log: PartitionLog, why: str) -> None:
        was = log.directory
        path = self.set_open_aside(log)
        logger.warning("%s: set aside as %s: %s", was, path, why)

    def set_open_aside(self, log: PartitionLog) -> str:
        """Close a log that is open, and rename its directory, which stays; returns the new path. Raises DiskFailure."""
        directory = self._directories.directory_of(log)
        path = self.take_away(log, directory, "stray")
        self._directories.settle_names(directory)
        return path

    def take_away(self, log: PartitionLog, directory: LogDirectory, why: str) -> str:
        """Close a log that is open, and rename its directory; returns the new path. Raises DiskFailure."""
        log.close(clean=False)
        log.health.on_failure = None  # a flush of it may be under way: how that ends says nothing about the directory
        return self.rename_away(log.directory, directory, (log.topic, log.partition), why, moved=log.moved_to)

    def set_aside(self, directory: LogDirectory, key: TopicPartition, why: str) -> None:
        """Rename a partition's directory; it stays under its new name. Raises DiskFailure."""
        path = self.rename_away(f"{directory.path}/{key[0]}-{key[1]}", directory, key, "stray")
        self._directories.guard(directory, partial(self._surroundings.disk.sync_directory, directory.path))
        logger.warning("%s-%d: set aside as %s: %s", *key, path, why)

    def has_topic_id(self, directory: LogDirectory, key: TopicPartition) -> bool:
        """Return False if a directory may be of an earlier topic. Raises DiskFailure."""
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
        """Rename the directories of deleted partitions; their files go after file.delete.delay.ms.

        The renames become durable with those of other deletions (deletions.py). What a failing device does not
        let go, a later start leaves alone until the name is used again.
        """
        for key in partitions:
            for directory in self._directories:
                with suppress(DiskFailure):
                    self._delete(directory, key)

    def _delete(self, directory: LogDirectory, key: TopicPartition) -> None:
        directories = self._directories
        if directory.is_offline or not directories.has_directory(directory, f"{key[0]}-{key[1]}"):
            return
        path = self.rename_away(f"{directory.path}/{key[0]}-{key[1]}", directory, key, "delete")
        directories.remove_later(PendingDeletion(LogConfig().file_delete_delay_ms, [path]))
        self._deletions.renamed(directory, key)

    def rename_away(
        self,
        old_path: str,
        directory: LogDirectory,
        key: TopicPartition,
        why: str,
        *,
        moved: Callable[[str], None] = lambda _: None,
    ) -> str:
        """Rename a partition's directory whose log is closed; the new path, which `moved` is called with in any case.

        Raises DiskFailure.
        """
        topic, partition = key
        suffix = f"-{partition}.{self._surroundings.chance.uuid().hex}-{why}"
        path = f"{directory.path}/{topic[: DIRECTORY_NAME_MAX - len(suffix)]}{suffix}"
        try:
            self._rename_or_remove(directory, old_path, path, may_remove=why == "delete")
        except DiskFailure:
            directory.keep_closed(key)
            raise
        else:
            directory.forget(key)
        finally:
            moved(path)
            directory.checkpoints_written += 1  # jobs under way would say of it what no longer holds
        return path

    def _rename_or_remove(self, directory: LogDirectory, old_path: str, path: str, *, may_remove: bool) -> None:
        guard, disk = self._directories.guard, self._surroundings.disk
        try:
            guard(directory, partial(disk.rename, old_path, path))
        except DiskFullError:  # there is not even space for a longer name
            if not may_remove:
                raise
            guard(directory, partial(disk.remove_directory, old_path))
