"""Rebuild of a segment's sparse indexes from its batches.

A segment may have millions of batches, so the rebuild proceeds one step at a time, whenever the indexes are needed.
Until it ends, every use of the indexes raises NotReadyError. The segment keeps its old indexes until the new ones are
complete.
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
"""Batches that are indexed in one step, which takes a few milliseconds."""
_DEFAULTS: Final = LogConfig()


def rebuild_in_steps(segment: Segment, disk: Disk) -> Iterator[None]:
    """Rebuild both indexes from the log.

    Raises CorruptLogError, and leaves the indexes unchanged, if the log is damaged.
    """
    derived = SegmentIndexes(disk, segment.stem, segment.base_offset, load=False, suffix=segment.suffix)
    derived.memory = segment.memory
    has_markers = False
    walked = count = 0
    while walked < segment.size:  # appends may happen between two steps
        for position, header in segment.walk(walked):
            if count == BATCHES_AT_ONCE:
                count = 0
                yield
            count += 1
            walked = position + header.size_in_bytes
            has_markers |= header.is_control
            derived.index_batch(
                position,
                header.size_in_bytes,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                _DEFAULTS,
            )
    derived.finish()
    _replace_indexes(segment, derived, has_markers=has_markers)


def _replace_indexes(segment: Segment, derived: SegmentIndexes, *, has_markers: bool) -> None:
    """Replace the indexes, and mark the transaction index as suspect, because the same damage may affect it.

    Rebuilding the transaction index takes the log's producers (transaction_check.py). Until that is done, no offset
    index is written: its absence makes the next start rebuild all three.
    """
    transactions = segment.transaction_index
    transactions.is_suspect = not transactions.is_checked
    if transactions.is_suspect:
        segment.offset_index.storage.remove()
    segment.move_indexes_from(derived)
    if not has_markers and transactions.file() is None:
        transactions.reset()
    segment.write_rebuilt()
