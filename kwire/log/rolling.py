"""Rolling: begins a new segment by size, by age in record time, or if an index or the offset range is full."""

from __future__ import annotations

import logging

from kwire.log.batch_order import RELATIVE_OFFSET_MAX
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFullError
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.removal import remove_last_segment
from kwire.log.segment import Segment

logger = logging.getLogger(__name__)


def is_due(segment: Segment, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
    """Return True if batches of `size` bytes, up to last_offset, need a new segment."""
    segment_size = segment.file.size
    if segment_size == 0:
        # An empty segment may begin above last_offset: a follower rolled to the first offset after a wide gap, and then
        # the write failed because the disk was full.
        return not 0 <= last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
    # segment.ms is measured in record time, if there are timestamps, so that old data is segmented like new data.
    if segment.first_timestamp is not None and segment.first_timestamp >= 0:
        waited_ms = max_timestamp - segment.first_timestamp
    else:
        waited_ms = now_ms - segment.created_ms
    return (
        segment_size + size > config.segment_bytes
        or waited_ms > config.roll_ms - segment.jitter_ms
        or segment.is_full
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    )


def base_offset(log_end_offset: int, first_offset: int, last_offset: int) -> int:
    """Return the base offset of a new segment for the batches first_offset..last_offset of a leader.

    Compaction on the leader may leave a gap before them. The gap becomes part of the new segment, so that a gap between
    two segments always means lost batches. Only a gap wider than a segment's offset range is left between segments.
    """
    return log_end_offset if last_offset - log_end_offset <= RELATIVE_OFFSET_MAX else first_offset


def roll(log: LogState, base_offset: int) -> None:
    """Close the active segment and begin a new one at base_offset."""
    active = log.segments.active
    ready_at_once(active.load)
    if active.size == 0:  # replicated batches that begin after the empty segment
        remove_last_segment(log)
    else:
        active.finish()
        _write_indexes(active)
        log.producers.end_offset = base_offset
        log.snapshots.write(log.producers, base_offset)
    begin_segment(log, base_offset)


def begin_segment(log: LogState, base_offset: int) -> None:
    """Create a segment and make it the active one."""
    segment = Segment(log.disk, log.directory, base_offset, create=True, created_ms=log.clock.wall_ms())
    if log.config.segment_jitter_ms > 0:
        segment.jitter_ms = int(log.random_source.uniform(0, min(log.config.segment_jitter_ms, log.config.segment_ms)))
    log.segments.append(segment)
    log.unsynced_paths.add(log.directory)


def _write_indexes(segment: Segment) -> None:
    try:
        segment.write_indexes()
    except DiskFullError as error:
        logger.warning("The disk is full: %s; the next flush tries again", error)
