"""Consistency check of a log after a clean shutdown, when no segment is scanned.

The check compares the files that store where a log begins and ends. Each of them could be wrong: the checkpoints have
no checksum, and no batch's CRC covers its offset. A log whose files disagree is not opened, because a wrong offset
would hide records or bring deleted ones back.
"""

from __future__ import annotations

from kwire.log.errors import CorruptLogError
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.segment import Segment


def check_clean_stop(log: LogState) -> int:
    """Return the log end offset of a log that is open except for its end. Raises CorruptLogError if files disagree."""
    _check_start(log)
    return _checked_end(log)


def _checked_end(log: LogState) -> int:
    """Return the end, which equals the recovery point unless the recovery checkpoint was lost."""
    active = log.segments.active
    end = ready_at_once(active.next_offset)
    if end < log.recovery_point:
        raise CorruptLogError(
            f"{log.directory} ends at offset {end}, although everything below offset {log.recovery_point} was durable"
        )
    if 0 < log.recovery_point < end and _has_gap_before_last_batch(active):
        raise CorruptLogError(
            f"{active.stem}.log ends at offset {end}, although the clean shutdown stored offset {log.recovery_point}"
        )
    return end


def _has_gap_before_last_batch(segment: Segment) -> bool:
    before, end, last_base = segment.base_offset, segment.base_offset, segment.base_offset
    for _, header in segment.walk(0):
        before, end, last_base = end, header.next_offset, header.base_offset
    return last_base > before


def _check_start(log: LogState) -> None:
    """Check that the first leader epoch begins at the log start offset, because every move of the start moves both.

    Apache Kafka accepts epochs that begin later, after a crash that undid a move of the start: it rebuilds the missing
    ones from the batches.
    """
    epochs = log.leader_epochs.entries()
    if epochs and epochs[0][1] < log.log_start_offset and log.segments.active.size + len(log.segments) > 1:
        raise CorruptLogError(
            f"{log.directory} begins at offset {log.log_start_offset} by the log start checkpoint, and at "
            f"{epochs[0][1]} by its leader epochs"
        )
