"""Which segments a log may lose: those past retention.ms, retention.bytes or the log start.

Whole segments, oldest first, and only below the high watermark. The active segment can go too when all of it is past
retention.ms: a new one is begun first, so that a log always has a segment and offsets go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.log.files import PendingDeletion
from kwire.log.removal import mark_deleted
from kwire.log.segment import Segment

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

SEGMENTS_AT_ONCE: Final = 32
"""Segments that one call removes: with their indexes, some 200 microseconds for each."""


def apply(log: PartitionLog, now_ms: int, high_watermark: int) -> list[PendingDeletion]:
    """Remove what is due; the log start moves to the first segment that stays.

    If SEGMENTS_AT_ONCE have gone, more of them may be due: the caller calls again. log.remove_later is called with each
    of the results, also when the rest fails; without it the caller removes their files.

    Raises NotReadyError, before it changes anything, while timestamps are derived.
    """
    pending: list[PendingDeletion] = []
    if log.config.is_deleted:
        _remove(log, high_watermark, _past_retention_ms(log, now_ms), "retention.ms", pending)
        _remove(log, high_watermark, _past_retention_bytes(log), "retention.bytes", pending)
    _remove(log, high_watermark, _below_log_start(log), "the log start offset", pending)
    return pending


def _past_retention_ms(log: PartitionLog, now_ms: int) -> Callable[[Segment, int], bool]:
    retention_ms = log.config.retention_ms
    segments = log.segments.with_timestamps(log.segments)

    def is_past(_: Segment, __: int) -> bool:
        if retention_ms < 0:
            return False
        segment = next(segments)  # the same one: all are asked about, in order
        newest = segment.max_timestamp if segment.max_timestamp >= 0 else modified_ms(log, segment)
        return now_ms - newest > retention_ms

    return is_past


def modified_ms(log: PartitionLog, segment: Segment) -> int:
    """What counts as the age of a segment without timestamps."""
    return log.disk.modified_ms(segment.file.path)


def _past_retention_bytes(log: PartitionLog) -> Callable[[Segment, int], bool]:
    surplus = log.size_in_bytes - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0

    def is_past(segment: Segment, _: int) -> bool:
        nonlocal surplus
        if surplus <= 0 or surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return is_past


def _below_log_start(log: PartitionLog) -> Callable[[Segment, int], bool]:
    def is_below(_: Segment, upper_bound: int) -> bool:
        return upper_bound <= log.log_start_offset

    return is_below


def _remove(
    log: PartitionLog,
    high_watermark: int,
    is_past: Callable[[Segment, int], bool],
    reason: str,
    pending: list[PendingDeletion],
) -> None:
    """Remove the first segments that are past something, and note their files; no more than are left of the limit."""
    room = SEGMENTS_AT_ONCE - len(pending)
    count = 0
    for index, segment in enumerate(log.segments):
        upper_bound = log.segments.upper_bound(index, log.log_end_offset)
        is_last_and_empty = index == len(log.segments) - 1 and segment.size == 0
        if count == room or upper_bound > high_watermark or is_last_and_empty or not is_past(segment, upper_bound):
            break
        count += 1
    if count == 0:
        return
    if count == len(log.segments):
        log.roll()
    new_start = log.segments[count].base_offset
    log.delete_records_before(new_start)
    logger.info("Deleting %s segments of %s-%s because of %s", count, log.topic, log.partition, reason)
    delay_ms = log.config.file_delete_delay_ms
    for _ in range(count):
        pending.append(mark_deleted(log, log.segments.remove_first(), delay_ms=delay_ms))
        if log.remove_later is not None:
            log.remove_later(pending[-1])
