"""Which segments a log may lose: those past retention.ms, retention.bytes or the log start.

Whole segments, oldest first, and only below the high watermark. The active segment can go too when all of it is past
retention.ms: a new one is begun first, so that a log always has a segment and offsets go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kwire.log.log_state import LogState
from kwire.log.segment import Segment

SEGMENTS_AT_ONCE: Final = 32
"""Segments that one call removes: with their indexes, some 200 microseconds for each."""


IsPast = Callable[[Segment, int], bool]
"""Whether a segment, below an offset that it does not reach, may go; asked of each in turn, oldest first."""


class Rule(NamedTuple):
    """A reason for segments to go."""

    reason: str
    is_past: IsPast


def rules(log: LogState, now_ms: int) -> Iterator[Rule]:
    """The rules of a log, one after another: what one has removed counts for the next.

    Raises NotReadyError, before anything is removed, while timestamps are derived.
    """
    if log.config.is_deleted:
        yield Rule("retention.ms", _past_retention_ms(log, now_ms))
        yield Rule("retention.bytes", _past_retention_bytes(log))
    yield Rule("the log start offset", _below_log_start(log))


def count_past(log: LogState, is_past: IsPast, high_watermark: int, most: int) -> int:
    """How many of the first segments may go, at most so many."""
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
        segment = next(segments)  # the same one: all are asked about, in order
        newest = segment.max_timestamp if segment.max_timestamp >= 0 else modified_ms(log, segment)
        return now_ms - newest > retention_ms

    return is_past


def modified_ms(log: LogState, segment: Segment) -> int:
    """What counts as the age of a segment without timestamps."""
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
