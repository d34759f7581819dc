"""After a clean stop nothing is scanned; that the files which say where a log begins and ends agree is looked at.

Each of them could be wrong: the checkpoints have no checksum, and no batch's CRC covers its offset. A log of which they
say different things is not opened: to believe the wrong one would hide records, or bring deleted ones back.
"""

from __future__ import annotations

from kwire.log.errors import CorruptLogError
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once
from kwire.log.segment import Segment


def check_clean_stop(log: LogState) -> int:
    """The log's end. Raises CorruptLogError if what was noted does not fit; log is opened but for its end."""
    _check_start(log)
    return _checked_end(log)


def _checked_end(log: LogState) -> int:
    """The recovery point is the end, but for logs whose checkpoint was lost."""
    active = log.segments.active
    end = ready_at_once(active.next_offset)
    if end < log.recovery_point:
        raise CorruptLogError(
            f"{log.directory} ends at offset {end}, although everything below offset {log.recovery_point} was durable"
        )
    if 0 < log.recovery_point < end and _has_gap_before_last_batch(active):
        raise CorruptLogError(
            f"{active.stem}.log ends at offset {end}, although a clean stop noted offset {log.recovery_point}"
        )
    return end


def _has_gap_before_last_batch(segment: Segment) -> bool:
    before, end, last_base = segment.base_offset, segment.base_offset, segment.base_offset
    for _, header in segment.walk(0):
        before, end, last_base = end, header.next_offset, header.base_offset
    return last_base > before


def _check_start(log: LogState) -> None:
    """The first leader epoch begins where the log does, since whatever moves the log's start moves both.

    Apache Kafka goes on with epochs that begin later, where a crash took back a move of the start: the batches tell
    what is missing then.
    """
    epochs = log.leader_epochs.entries()
    if epochs and epochs[0][1] < log.log_start_offset and log.segments.active.size + len(log.segments) > 1:
        raise CorruptLogError(
            f"{log.directory} begins at offset {log.log_start_offset} by the log start checkpoint, and at "
            f"{epochs[0][1]} by its leader epochs"
        )
