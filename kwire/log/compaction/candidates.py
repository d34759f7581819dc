"""Selection of the next log to compact, and of the part of it.

A log's clean part is below its first dirty offset. Its dirty part ends at the first segment that must not be compacted:
the active one, or one with records that are uncommitted, in an open transaction, not durable, or younger than
min.compaction.lag.ms. The log with the largest dirty ratio is chosen; past max.compaction.lag.ms a log is due at any
ratio.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kwire.log.compaction.plan import LastRecord, RoundPlan, SourceSegment
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import Segment
from kwire.log.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Candidate:
    """Log that has something to compact."""

    log: PartitionLog
    first_dirty_offset: int
    upper_bound_offset: int
    """Base offset of the first segment that must not be compacted."""
    dirty_ratio: float
    is_overdue: bool
    truncations: int
    """Number of truncations of the log so far; if it changes, the result of the round is discarded."""

    def plan(self, now_ms: int, offset_map_bytes: int) -> RoundPlan:
        """Return the plan for a round of this log. Raises NotReadyError."""
        log, config = self.log, self.log.config
        segments = self._segments()
        ends = [*(segment.base_offset for segment in segments[1:]), self.upper_bound_offset]
        return RoundPlan(
            directory=log.directory,
            segments=tuple(_source(segment, end) for segment, end in zip(segments, ends, strict=True)),
            first_dirty_offset=self.first_dirty_offset,
            upper_bound_offset=self.upper_bound_offset,
            aborted=tuple(self._aborted()),
            last_records=tuple(
                LastRecord(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_data_offset=entry.last_data_offset,
                )
                for entry in log.producers.active()
            ),
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            offset_map_bytes=offset_map_bytes,
        )

    def _segments(self) -> list[Segment]:
        return [segment for segment in self.log.segments if segment.base_offset < self.upper_bound_offset]

    def _aborted(self) -> list[AbortedTransaction]:
        return self.log.aborted_transactions(self._segments()[0].base_offset, self.upper_bound_offset)


def _source(segment: Segment, end_offset: int) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size=segment.size,
        offset_index_bytes=segment.offset_index.file_bytes,
        time_index_bytes=segment.time_index.file_bytes,
        has_transaction_index=segment.transaction_index.file() is not None,
    )


def dirtiest(
    logs: Iterable[PartitionLog], last_stable_offset_of: Callable[[PartitionLog], int], now_ms: int
) -> Candidate | None:
    """Return the log with the largest dirty ratio, None if none is due. Raises NotReadyError."""
    found = [
        candidate
        for log in logs
        if log.config.is_compacted and log.failure is None and log.pending_truncation is None
        if (candidate := _sound_candidate(log, last_stable_offset_of(log), now_ms)) is not None
    ]
    return max(found, key=lambda candidate: candidate.dirty_ratio, default=None)


def _sound_candidate(log: PartitionLog, last_stable_offset: int, now_ms: int) -> Candidate | None:
    """Return the log as a candidate if it is due; take it offline if its files cannot be read."""
    try:
        return _candidate(log, last_stable_offset, now_ms)
    except CorruptLogError as error:
        log.health.damaged(error)
    except DiskFailure as failure:
        log.health.fail(failure)
    return None


def _candidate(log: PartitionLog, last_stable_offset: int, now_ms: int) -> Candidate | None:
    first_dirty = _first_dirty_offset(log)
    upper_bound = _upper_bound(log, first_dirty, last_stable_offset, now_ms)
    if upper_bound <= first_dirty:
        return None
    index = log.segments.index_of(first_dirty)
    bounded = [segment for segment in log.segments if segment.base_offset < upper_bound]
    clean_bytes = sum(segment.size for segment in bounded if segment.base_offset < first_dirty)
    dirty_bytes = sum(segment.size for segment in bounded[index:])
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    is_overdue = _is_overdue(log, bounded[index:], now_ms)
    if not is_overdue and ratio <= log.config.min_cleanable_dirty_ratio:
        return None
    return Candidate(
        log=log,
        first_dirty_offset=first_dirty,
        upper_bound_offset=upper_bound,
        dirty_ratio=ratio,
        is_overdue=is_overdue,
        truncations=log.offsets.truncations,
    )


def _first_dirty_offset(log: PartitionLog) -> int:
    """Return where the dirty part begins; the log start offset if the checkpointed offset is invalid."""
    if log.offsets.first_dirty > log.log_end_offset:
        logger.warning(
            "Resetting first dirty offset of %s-%s to log start offset %s since the checkpointed offset %s is behind "
            "the end of the log",
            log.topic,
            log.partition,
            log.log_start_offset,
            log.offsets.first_dirty,
        )
        log.offsets.cleaned(0)
    return max(log.offsets.first_dirty, log.log_start_offset)


def _upper_bound(log: PartitionLog, first_dirty: int, last_stable_offset: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must not be compacted.

    Records that are not durable are excluded: an older record must not be removed because of one that a power failure
    could lose.
    """
    bound = min(last_stable_offset, log.recovery_point, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    below = [segment for segment in log.segments.from_offset(first_dirty) if segment.base_offset < bound]
    for segment in log.segments.with_timestamps(below):
        if lag_ms > 0 and segment.max_timestamp > now_ms - lag_ms:
            bound = segment.base_offset
            break
    return log.segments[log.segments.index_of(bound)].base_offset


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    """Return True if a dirty record is older than max.compaction.lag.ms."""
    until_ms = now_ms - log.config.max_compaction_lag_ms
    for segment in log.segments.with_timestamps(dirty):
        if segment.first_timestamp is not None and 0 < segment.first_timestamp < until_ms:
            return True
    return False
