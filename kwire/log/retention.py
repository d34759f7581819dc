"""Retention: selects the segments that are past retention.ms, retention.bytes or the log start.

Only whole segments are removed, oldest first, and only below the high watermark. The active segment can be removed too
if all of it is past retention.ms: a new one is created first, so that a log always has a segment and its end offset is
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kwire.log.log_state import LogState
from kwire.log.segment import Segment

SEGMENTS_AT_ONCE: Final = 32
"""Segments that one call removes; with their indexes, each takes about 200 microseconds."""


IsPast = Callable[[Segment, int], bool]
"""Predicate for a segment and its exclusive upper bound offset: True if it may be removed. Called oldest first."""


class Rule(NamedTuple):
    """Reason for the removal of segments."""

    reason: str
    is_past: IsPast


def rules(log: LogState, now_ms: int) -> Iterator[Rule]:
    """Yield the rules of a log, one after another; each is evaluated after the removals of the previous one.

    Raises NotReadyError, before anything is removed, while timestamps are derived.
    """
    if log.config.is_deleted:
        yield Rule("retention.ms", _past_retention_ms(log, now_ms))
        yield Rule("retention.bytes", _past_retention_bytes(log))
    yield Rule("the log start offset", _below_log_start(log))


def count_past(log: LogState, is_past: IsPast, high_watermark: int, most: int) -> int:
    """Return how many of the first segments may be removed, at most `most`."""
    last = len(log.segments) - 1
    count = 0
    for index, segment in enumerate(log.segments):
        upper_bound = log.segments.upper_bound(index, log.log_end_offset)
        is_last_and_empty = index == last and segment.size == 0
        if count == most or upper_bound > high_watermark or is_last_and_empty or not is_past(segment, upper_bound):
            break
        count += 1
    return count


def _past_retention_ms(log: LogState, now_ms: int) -> IsPast:
    retention_ms = log.config.retention_ms
    segments = log.segments.with_timestamps(log.segments)

    def is_past(_: Segment, __: int) -> bool:
        if retention_ms < 0:
            return False
        segment = next(segments)  # the same segment: the predicate is called for all in order
        newest = segment.max_timestamp if segment.max_timestamp >= 0 else modified_ms(log, segment)
        return now_ms - newest > retention_ms

    return is_past


def modified_ms(log: LogState, segment: Segment) -> int:
    """Return the time that counts as the age of a segment without timestamps."""
    return log.disk.modified_ms(segment.file.path)


def _past_retention_bytes(log: LogState) -> IsPast:
    surplus = log.segments.size_in_bytes() - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0

    def is_past(segment: Segment, _: int) -> bool:
        nonlocal surplus
        if surplus <= 0 or surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return is_past


def _below_log_start(log: LogState) -> IsPast:
    def is_below(_: Segment, upper_bound: int) -> bool:
        return upper_bound <= log.log_start_offset

    return is_below
