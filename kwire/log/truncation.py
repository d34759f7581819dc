"""Truncation of a log's end, as a follower does when its log has diverged from its leader's.

A truncation has two parts. The first part shortens files and offsets immediately. The second part derives the
producers' state from the remaining batches, which may be many, and makes the new end durable. Until then the log
accepts no appends. Its last stable offset is its start until the producers' state is derived.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.log.checkpoints import PARTITION_METADATA_FILE
from kwire.log.disk import DiskFailure, DiskFile, DiskFullError
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.removal import remove_last_segment
from kwire.log.replay import replay_producers_in_steps
from kwire.log.rolling import begin_segment
from kwire.log.segments import Segments


class PendingTruncation:
    """Second part of a truncation."""

    def __init__(self, log: LogState, files: list[DiskFile]) -> None:
        self._log = log
        self._files = files
        self._replay = replay_producers_in_steps(log)
        log.producers.is_derived = False

    def derive_more(self) -> bool:
        """Derive the producers' state from a few more batches; return False if it is complete."""
        if self._log.producers.is_derived:
            return False
        steps = self._replay
        self._replay = replay_producers_in_steps(self._log)  # if a step fails, the next call starts again
        for _ in steps:
            self._replay = steps
            return True
        self._log.producers.mark_derived()
        return False

    def complete(self) -> None:
        """Do all remaining work synchronously."""
        while self.derive_more():
            pass
        for file in self._files:
            file.sync()  # no flush syncs it after it is no longer the active segment


class CutPlan(NamedTuple):
    """Planned result of a truncation, determined before anything is changed."""

    end_offset: int
    cleaned_to: int
    """Upper bound of the first dirty offset after the truncation."""


class Cut(NamedTuple):
    """Result of a truncation."""

    end_offset: int
    files: list[DiskFile]
    """Files whose new end is not durable."""


def plan(segments: Segments, offset: int) -> CutPlan:
    """Return the end of a log without the batch that contains `offset`, and without all later ones.

    Raises NotReadyError while the indexes for the search are rebuilt.
    """
    last = segments.from_offset(offset - 1)[0]
    last.position_of(offset)
    end_offset = last.end_below(offset)
    return CutPlan(end_offset, min(end_offset, segments.from_offset(offset)[0].base_offset))


def cut(log: LogState, offset: int) -> Cut:
    """Remove everything from `offset` on, and the whole batch that contains it.

    The newest files are removed first: a crash in between leaves a log that is too long, never one with a gap.
    """
    try:
        return _cut(log, offset)
    except DiskFullError as full:  # a part of the log was removed, which cannot be undone
        raise DiskFailure(full.operation, full.path, full.error) from full


def _cut(log: LogState, offset: int) -> Cut:
    newest = log.segments.active
    while len(log.segments) > 1 and log.segments.active.base_offset >= offset:
        remove_last_segment(log)
    if log.segments.active is not newest:
        _sync_names(log)
    active = log.segments.active
    active.truncate(ready_at_once(lambda: active.position_of(offset)))
    try:
        indexes = active.write_indexes()
    except DiskFullError:
        indexes = []  # aborted transactions that could not be written before delay the flush that writes them
    end_offset = ready_at_once(active.next_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.snapshots.remove_from(end_offset)
    log.unsynced_paths.add(log.directory)  # a snapshot that reappeared would contain removed batches
    return Cut(end_offset, [active.file, *indexes])


def truncate_fully(log: LogState, offset: int) -> None:
    """Remove all segments and begin an empty one at `offset`."""
    while len(log.segments):
        remove_last_segment(log)
    try:
        _sync_names(log)
        log.snapshots.remove_from(-1)
        begin_segment(log, offset)
    except DiskFullError as full:  # all of the log was removed, which cannot be undone
        raise DiskFailure(full.operation, full.path, full.error) from full


def sync_topic_id(log: LogState) -> None:
    """Make partition.metadata durable if no flush has done so, since a recovery point above 0 implies that it is.

    Otherwise a power failure that leaves an incomplete file would look like damage to a flushed log, and keep it
    closed.
    """
    path = f"{log.directory}/{PARTITION_METADATA_FILE}"
    if path in log.unsynced_paths:
        log.disk.sync_file(path)


def _sync_names(log: LogState) -> None:
    """Make the removals durable: a segment that reappeared would seem to follow the records that are appended now."""
    log.disk.sync_directory(log.directory)
