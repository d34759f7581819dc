"""Sanity check of a segment's sparse indexes: compares their last entries with the batches of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.errors import CorruptIndexError
from kwire.log.segment_indexes import BATCHES_BETWEEN_ENTRIES_MAX

if TYPE_CHECKING:
    from kwire.log.segment import Segment


def check(segment: Segment) -> None:
    """Check both indexes. Raises CorruptIndexError, or CorruptLogError if an entry points to no batch."""
    offset, position = segment.offset_index.last_entry()
    if position > 0:
        header = segment.header_at(position)
        if header is None or not header.base_offset <= offset <= header.last_offset:
            raise CorruptIndexError(f"no batch with offset {offset} is at position {position}")
    timestamp, offset = segment.time_index.last_entry()
    for _, header in segment.walk(segment.offset_index.lookup(offset), BATCHES_BETWEEN_ENTRIES_MAX):
        if header.last_offset >= offset:
            if header.max_timestamp != timestamp and (header.max_timestamp >= 0 or timestamp >= 0):
                raise CorruptIndexError(f"the batch with offset {offset} does not have timestamp {timestamp}")
            return
    raise CorruptIndexError(f"the time index has an entry for offset {offset}, which does not exist")
