"""Making the sparse indexes of a segment again, from its batches.

A segment may have millions of them: the work goes on a step at a time, one each time that somebody needs the indexes,
and until it ends all who do get NotReadyError. The segment keeps what it has until the new indexes are whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kwire.log.config import LogConfig
from kwire.log.disk import Disk
from kwire.log.segment_indexes import SegmentIndexes

if TYPE_CHECKING:
    from kwire.log.segment import Segment

BATCHES_AT_ONCE: Final = 512
"""Batches that are indexed in one step: some milliseconds."""
_DEFAULTS: Final = LogConfig()


def rebuild_in_steps(segment: Segment, disk: Disk) -> Iterator[None]:
    """Derive both indexes from the log; raises CorruptLogError and leaves them as they are if it is damaged."""
    derived = SegmentIndexes(disk, segment.stem, segment.base_offset, load=False, suffix=segment.suffix)
    derived.memory = segment.memory
    has_markers = False
    walked = count = 0
    while walked < segment.size:  # appends may go on between two steps
        for position, header in segment.walk(walked):
            if count == BATCHES_AT_ONCE:
                count = 0
                yield
            count += 1
            walked = position + header.size_in_bytes
            has_markers |= header.is_control
            derived.note_batch(
                position,
                header.size_in_bytes,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                _DEFAULTS,
            )
    derived.finish()
    _put_in_place(segment, derived, has_markers=has_markers)


def _put_in_place(segment: Segment, derived: SegmentIndexes, *, has_markers: bool) -> None:
    """What damaged the indexes may have damaged the third, of the aborted transactions.

    As long as those have not been derived as well, which takes the log's producers (transaction_check.py), no offset
    index is written: that none is there tells the next start what this one knows.
    """
    transactions = segment.transaction_index
    transactions.is_doubted = not transactions.is_believed
    if transactions.is_doubted:
        segment.offset_index.storage.remove()
    segment.take_indexes(derived)
    if not has_markers and transactions.file() is None:
        transactions.reset()
    segment.write_rebuilt()
