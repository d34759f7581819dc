"""Removal of segments from a log."""

from __future__ import annotations

from kwire.log.files import PendingDeletion, rename_deleted
from kwire.log.log_state import LogState
from kwire.log.segment import Segment


def remove_last_segment(log: LogState) -> None:
    """Remove the newest segment and delete its files, now or later: its records were never committed."""
    segment = log.segments.remove_last()
    if log.remove_later is not None:
        log.remove_later(mark_deleted(log, segment, delay_ms=0))
        return
    segment.close()
    log.snapshots.remove(segment.base_offset)
    for path in segment.paths():
        log.disk.unlink(path)


def mark_deleted(log: LogState, segment: Segment, *, delay_ms: int) -> PendingDeletion:
    """Rename a removed segment's files, which readers may still use, and return their deletion."""
    segment.close()
    log.snapshots.remove(segment.base_offset)
    paths = [rename_deleted(log.disk, path) for path in segment.paths() if log.disk.exists(path)]
    return PendingDeletion(delay_ms, paths)
