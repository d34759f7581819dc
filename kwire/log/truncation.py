"""Cutting a log's end off, as a follower does when its leader's log went another way.

A cut has two parts. The first one shortens files and offsets, at once. The second one derives the state of the
producers from the batches that stay, which may be many, and makes the new end durable; before it the log takes no
appends, and read_committed consumers are told that nothing in it is stable.
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


class UnsettledCut:
    """The second part of a cut."""

    def __init__(self, log: LogState, files: list[DiskFile]) -> None:
        self._log = log
        self._files = files
        self._replay = replay_producers_in_steps(log)
        log.producers.is_derived = False

    def derive_more(self) -> bool:
        """Derive the producers from a few more batches; return False when all are."""
        if self._log.producers.is_derived:
            return False
        steps = self._replay
        self._replay = replay_producers_in_steps(self._log)  # where a step fails, the next call begins anew
        for _ in steps:
            self._replay = steps
            return True
        self._log.producers.derived()
        return False

    def settle(self) -> None:
        """Do all that is left, here and now."""
        while self.derive_more():
            pass
        for file in self._files:
            file.sync()  # when it is no longer the active segment no flush will do it


class CutPlan(NamedTuple):
    """What a cut will leave, found before anything is changed."""

    end_offset: int
    cleaned_to: int
    """Where the dirty part begins at the latest."""


class Cut(NamedTuple):
    """What a cut has left."""

    end_offset: int
    files: list[DiskFile]
    """Files whose new end is not durable."""


def plan(segments: Segments, offset: int) -> CutPlan:
    """Find the end of a log without the batch that holds offset, and all behind it.

    Raises NotReadyError while the indexes that lead there are derived.
    """
    last = segments.from_offset(offset - 1)[0]
    last.position_of(offset)
    end_offset = last.end_below(offset)
    return CutPlan(end_offset, min(end_offset, segments.from_offset(offset)[0].base_offset))


def cut(log: LogState, offset: int) -> Cut:
    """Remove everything from offset on, and the whole batch that holds it.

    Newest files go first: a crash on the way leaves a log that is longer than wanted, never one with a hole.
    """
    try:
        return _cut(log, offset)
    except DiskFullError as full:  # although a part of the log was removed: there is no going back to before
        raise DiskFailure(full.operation, full.path, full.error) from full


def _cut(log: LogState, offset: int) -> Cut:
    newest = log.segments.active
    while len(log.segments) > 1 and log.segments.active.base_offset >= offset:
        remove_last_segment(log)
    if log.segments.active is not newest:
        _settle_names(log)
    active = log.segments.active
    active.truncate(ready_at_once(lambda: active.position_of(offset)))
    try:
        indexes = active.write_indexes()
    except DiskFullError:
        indexes = []  # aborted transactions that found no space before hold up the flush that will write them
    end_offset = ready_at_once(active.next_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.snapshots.remove_from(end_offset)
    log.unsynced_paths.add(log.directory)  # a snapshot that came back would be of batches that are gone
    return Cut(end_offset, [active.file, *indexes])


def truncate_fully(log: LogState, offset: int) -> None:
    """Remove everything; leave an empty segment at offset."""
    while len(log.segments):
        remove_last_segment(log)
    try:
        _settle_names(log)
        log.snapshots.remove_from(-1)
        begin_segment(log, offset)
    except DiskFullError as full:  # although all of the log was removed: there is nothing to go back to
        raise DiskFailure(full.operation, full.path, full.error) from full


def settle_topic_id(log: LogState) -> None:
    """Make partition.metadata durable if no flush has: a recovery point above 0 says that it is.

    Else a power cut that tears the file would look like damage to a log that was flushed, and keep it closed.
    """
    path = f"{log.directory}/{PARTITION_METADATA_FILE}"
    if path in log.unsynced_paths:
        log.disk.sync_file(path)


def _settle_names(log: LogState) -> None:
    """Make the removals durable: a segment that came back behind what is appended now would look like its sequel."""
    log.disk.sync_directory(log.directory)
