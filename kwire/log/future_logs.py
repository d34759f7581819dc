"""Future logs: replicas that are being moved to another log directory of their broker (KIP-113).

A future log is filled beside its partition's log, in "topic-partition.<32 hex digits>-future", and then replaces it.
Until then only this module and the copying code use it. A start lists interrupted moves in `interrupted`, so that they
can begin again. The old future log is removed only after a new one exists. A start that is killed during the recovery
of other logs thus leaves the move for the next start.

A crash may undo any of the renames since the last sync of their directory. After a crash at any point, one log must
have all durable records. replace() is one call on the loop, so nothing is appended meanwhile:

1. The future log is made durable, with a .moved file in it. Until here a start finds the old log and a future one.
2. The future log is added to its directory's checkpoints; otherwise none of its records would count as durable.
3. The future log gets the partition's name; the directory is synced. From here on a start may find both logs. They are
   equal, or only one was appended to. If one has a .moved file, the log with the larger end is kept, the other removed.
4. The old log's directory is renamed for removal and synced; then the .moved file is removed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from kwire.log.batch_validation import AppendOrigin
from kwire.log.checkpoints import CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE, TopicPartition
from kwire.log.closed_logs import ClosedLogs
from kwire.log.disk import Disk, DiskFailure
from kwire.log.errors import CorruptLogError, NotReadyError
from kwire.log.files import LOG_SUFFIX, PendingDeletion, base_offsets
from kwire.log.log_directories import LogDirectories
from kwire.log.log_directory import LogDirectory
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, open_log
from kwire.log.scanning import scan
from kwire.log.segment import Segment
from kwire.protocol.records import iterate_headers

logger = logging.getLogger(__name__)

MOVED_FILE: Final = ".moved"
PREFERRED_MAX: Final = 10_000
"""Most partitions that do not exist yet for which a preferred directory is stored; the oldest are dropped first."""
_FUTURE_DIRECTORY: Final = re.compile(r"(?P<name>.+-(0|[1-9][0-9]{0,9}))\.[0-9a-f]{32}-future")


class Copying:
    """Copy of a log into a future log, which is filled as a follower's log is."""

    def __init__(self, log: PartitionLog, future: PartitionLog, *, is_start_known: bool) -> None:
        self.log = log
        self.future = future
        self._truncations = log.offsets.truncations if is_start_known else -1
        """Truncation count of the log that the future log reflects; -1 if unknown."""

    def step(self, max_bytes: int) -> int:
        """Copy the next batches and return their bytes, 0 if none. Raises NotReadyError, KafkaError, DiskFailure."""
        log, future = self.log, self.future
        if future.log_end_offset < log.log_start_offset or self._truncations != log.offsets.truncations:
            self._restart()
        future.update_config(log.config)
        if future.log_end_offset >= log.log_end_offset:
            return 0
        data = log.read(max(future.log_end_offset, log.log_start_offset), min(max_bytes, log.config.segment_bytes))
        if data:
            future.append(data, leader_epoch=-1, origin=AppendOrigin.REPLICATION)
        return len(data)

    def _restart(self) -> None:
        """Start again after a truncation of the log, or after deletion of the records that would be copied next."""
        offset = _begin_offset(self.log)
        self._truncations = self.log.offsets.truncations
        self.future.truncate_fully_and_start_at(offset)
        self.future.offsets.cleaned(self.log.offsets.first_dirty)


class FutureLogs:
    """Future logs of a broker."""

    def __init__(self, directories: LogDirectories, closed: ClosedLogs, surroundings: Surroundings) -> None:
        self._directories = directories
        self._closed = closed
        self._surroundings = surroundings
        self._disk: Disk = surroundings.disk
        self._preferred: dict[TopicPartition, str] = {}
        self.interrupted: dict[TopicPartition, str] = {}
        """Target log directories of the moves that the last stop interrupted, by partition."""
        self._interrupted_logs: dict[TopicPartition, list[tuple[LogDirectory, str]]] = {}
        """Future logs of interrupted moves, by partition: (log directory, name of the future log's directory)."""

    # Preferred directories of logs that do not exist yet

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Create the partition's log in this directory, if it is created later."""
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = path
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, topic: str, partition: int, directories: Iterable[LogDirectory]) -> list[LogDirectory]:
        """Return the preferred directory if it is one of these, and forget the preference."""
        path = self._preferred.pop((topic, partition), None)
        return [directory for directory in directories if directory.path == path]

    # Moves

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the partition's future log, or None."""
        key = (topic, partition)
        return next((found.futures[key] for found in self._directories if key in found.futures), None)

    def begin(self, log: PartitionLog, directory: LogDirectory) -> Copying:
        """Create an empty future log of a log. Raises KafkaError, CorruptLogError, DiskFailure."""
        try:
            start, is_start_known = _begin_offset(log), True
        except NotReadyError:
            start, is_start_known = log.log_start_offset, False  # the first step determines it
        name = f"{log.topic}-{log.partition}.{self._surroundings.random_source.uuid().hex}-future"
        path = f"{directory.path}/{name}"
        try:
            future = self._open(path, log, directory, start_offset=start)
        except DiskFailure:
            self._directories.remove_later(PendingDeletion(0, [path]))
            raise
        future.offsets.cleaned(log.offsets.first_dirty)  # everything below it that is copied was already compacted
        directory.futures[log.topic, log.partition] = future
        with suppress(DiskFailure):  # a later start removes them
            self._directories.guard(directory, partial(self._disk.sync_directory, directory.path))
            self._remove_interrupted(log.topic, log.partition)
        return Copying(log, future, is_start_known=is_start_known)

    def _open(
        self,
        path: str,
        log: PartitionLog,
        directory: LogDirectory,
        *,
        start_offset: int,
        durable_end: int | None = None,
    ) -> PartitionLog:
        opened = self._directories.guard(
            directory,
            lambda: open_log(
                path,
                topic=log.topic,
                partition=log.partition,
                config=log.config,
                surroundings=self._surroundings,
                topic_id=log.topic_id,
                log_start_offset=start_offset,
                recovery_point=durable_end or 0,
                was_clean_shutdown=durable_end is not None,
            ),
        )
        if durable_end is None:  # no checkpoint contains it, and its files have no readers
            self._directories.connect_failures(directory, opened)
        else:
            self._directories.connect(directory, opened)
        return opened

    def abandon(self, topic: str, partition: int) -> None:
        """Remove a partition's future log, if there is one. A later start removes what cannot be renamed."""
        for directory in self._directories:
            future = directory.futures.pop((topic, partition), None)
            if future is not None:
                self._remove(future, directory, delay_ms=0)
        with suppress(DiskFailure):
            self._remove_interrupted(topic, partition)

    def _remove_interrupted(self, topic: str, partition: int) -> None:
        for directory, name in self._interrupted_logs.pop((topic, partition), ()):
            renamed = name.removesuffix("future") + "delete"
            self._rename(directory, name, renamed)
            self._directories.remove_later(PendingDeletion(0, [f"{directory.path}/{renamed}"]))

    def _remove(self, log: PartitionLog, directory: LogDirectory, *, delay_ms: int) -> bool:
        try:
            path = self._closed.close_and_rename(log, directory, "delete")
            self._directories.remove_later(PendingDeletion(delay_ms, [path]))
            self._directories.sync_removals(directory)
        except DiskFailure:  # the directory is offline or full, which is already logged
            return False
        return True

    # The swap

    def replace(self, log: PartitionLog) -> PartitionLog:
        """Replace a log by its future log, which has all its records; return the new log of the partition.

        Raises KafkaError, CorruptLogError, DiskFailure; the old log then stays, and the future log is unusable.
        """
        directories, key = self._directories, (log.topic, log.partition)
        old = directories.directory_of(log)
        new = next(directory for directory in directories if key in directory.futures)
        future = new.futures[key]
        assert future.log_end_offset <= log.log_end_offset
        try:
            moved = self._swap_in(log, future, new)
        except BaseException:
            new.remove(key)  # else the checkpoints would still contain it
            raise
        del new.futures[key]
        new.logs[key] = moved
        with suppress(DiskFailure):
            if moved.offsets.first_dirty > 0:
                directories.guard(new, partial(directories.write_checkpoints, new, (CLEANER_FILE,)))
        if self._remove(log, old, delay_ms=log.config.file_delete_delay_ms):
            with suppress(DiskFailure):
                directories.guard(new, partial(self._disk.unlink, f"{moved.directory}/{MOVED_FILE}"))
        return moved

    def _swap_in(self, log: PartitionLog, future: PartitionLog, directory: LogDirectory) -> PartitionLog:
        guard, disk, key = self._directories.guard, self._disk, (log.topic, log.partition)
        _copy_state(log, future)
        end, first_dirty = future.log_end_offset, future.offsets.first_dirty
        mark = f"{future.directory}/{MOVED_FILE}"
        guard(directory, lambda: disk.replace(mark, b"", sync=False))
        future.unsynced_paths.add(mark, future.directory)
        future.close(clean=True)
        self._update_checkpoints(key, directory, end, log.log_start_offset)
        path = f"{directory.path}/{log.topic}-{log.partition}"
        guard(directory, lambda: disk.rename(future.directory, path))
        future.moved_to(path)
        guard(directory, lambda: disk.sync_directory(directory.path))
        moved = self._open(path, log, directory, start_offset=log.log_start_offset, durable_end=end)
        moved.producers = log.producers
        moved.offsets.cleaned(first_dirty)
        return moved

    def _update_checkpoints(self, key: TopicPartition, directory: LogDirectory, durable_end: int, start: int) -> None:
        """Update the checkpoints. Only files that change are written, since each one waits for the disk.

        Entries of an earlier log of the partition in this directory, maybe of an earlier topic, are removed.
        """
        changing = {name for name, keys in directory.named.items() if key in keys} | {RECOVERY_POINT_FILE}
        directory.remove(key)
        directory.recovery_points[key] = durable_end
        if start > 0:
            directory.log_starts[key] = start
            changing.add(LOG_START_FILE)
        self._directories.guard(directory, lambda: self._directories.write_checkpoints(directory, sorted(changing)))

    # At start

    def resolve_interrupted_moves(self) -> None:
        """Find interrupted moves before any log is opened, and keep only one log of each partition."""
        names = {found.path: self._names_in(found) for found in self._directories if not found.is_offline}
        all_names = set().union(*names.values())
        for directory in self._directories:
            self._find_interrupted(directory, names.get(directory.path, frozenset()), all_names)
        for name in sorted(all_names):
            holders = [found for found in self._directories if name in names.get(found.path, ())]
            if len(holders) > 1 and any(self._disk.exists(f"{each.path}/{name}/{MOVED_FILE}") for each in holders):
                with suppress(DiskFailure):
                    self._choose(name, holders)

    def _names_in(self, directory: LogDirectory) -> frozenset[str]:
        try:
            return frozenset(self._directories.guard(directory, lambda: self._disk.list(directory.path)))
        except DiskFailure:
            return frozenset()

    def _find_interrupted(self, directory: LogDirectory, names: frozenset[str], all_names: set[str]) -> None:
        """Find the future logs of interrupted moves.

        A future log whose partition has no log here is kept, because that log may be in a missing directory.
        """
        for name in names:
            found = _FUTURE_DIRECTORY.fullmatch(name)
            if found is not None and found["name"] in all_names:
                logger.info("The move to %s/%s was interrupted and will be restarted", directory.path, found["name"])
                topic, _, index = found["name"].rpartition("-")
                self.interrupted[topic, int(index)] = directory.path
                self._interrupted_logs.setdefault((topic, int(index)), []).append((directory, name))

    def _choose(self, name: str, holders: list[LogDirectory]) -> None:
        """Keep the log with the larger end, since only one is appended to after a move; if equal, the moved one."""

        def rank(directory: LogDirectory) -> tuple[int, bool]:
            path = f"{directory.path}/{name}"
            end = self._directories.guard(directory, lambda: _end_offset(self._disk, path))
            return end, self._disk.exists(f"{path}/{MOVED_FILE}")

        kept = max(holders, key=rank)
        for directory in holders:
            if directory is not kept:
                logger.warning(
                    "%s was being moved: keeping the log in %s, removing the one in %s", name, kept.path, directory.path
                )
                self._rename(directory, name, f"{name}.{self._surroundings.random_source.uuid().hex}-delete")
        self._directories.guard(kept, lambda: self._disk.unlink(f"{kept.path}/{name}/{MOVED_FILE}"))

    def _rename(self, directory: LogDirectory, old: str, new: str) -> None:
        guard, path = self._directories.guard, directory.path
        guard(directory, lambda: self._disk.rename(f"{path}/{old}", f"{path}/{new}"))
        guard(directory, lambda: self._disk.sync_directory(path))


def _begin_offset(log: PartitionLog) -> int:
    """Return the start of a copy: batches are copied whole, and the log start offset may be inside one."""
    data = log.read(log.log_start_offset, 1)
    first = next((header.base_offset for _, header in iterate_headers(data)), log.log_start_offset)
    return min(first, log.log_start_offset)


def _copy_state(log: PartitionLog, future: PartitionLog) -> None:
    """Copy the state of a log that its batches do not contain into its future log.

    The future log begins a new segment, for two reasons. A producer snapshot belongs to the beginning of a segment, and
    some producers may have no batch left. Compaction may also have removed the last batches of the log.
    """
    log.complete_truncation()
    end = log.log_end_offset
    future.update_config(log.config)
    future.producers = log.producers
    if log.topic_id is not None and future.topic_id != log.topic_id:
        future.assign_topic_id(log.topic_id)
    future.roll(end)
    future.offsets.advance(end)
    future.delete_records_before(log.log_start_offset)
    future.leader_epochs.derive(log.leader_epochs.entries())
    future.offsets.cleaned(min(future.offsets.first_dirty, end))


def _end_offset(disk: Disk, path: str) -> int:
    """Return the end offset of the whole batches in a log's files."""
    found = sorted(base_offsets(disk.list(path), LOG_SUFFIX))
    for base_offset in reversed(found):
        end = _end_of_segment(Segment(disk, path, base_offset, create=False, created_ms=0))
        if end is not None:
            return end
    return found[0] if found else 0


def _end_of_segment(segment: Segment) -> int | None:
    """Return the end offset of a segment; None if it has no whole batch or is damaged."""
    try:
        return max((header.next_offset for _, header, _ in scan(segment.file)), default=None)
    except CorruptLogError:
        return None
    finally:
        segment.close()
