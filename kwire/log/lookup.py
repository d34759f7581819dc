"""Log searches by other keys than an offset: batches by timestamp, and aborted transactions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kwire.log.segment import Segment
from kwire.log.segments import Segments
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.records import LENGTH_OVERHEAD, BatchHeader, parse_header

LENGTH_POSITION: Final = 8
_LENGTH: Final = Struct(">i")
HEADERS_AT_ONCE: Final = 512
"""Batches whose headers are read in one step of a search, which takes a few milliseconds."""


class Candidate(NamedTuple):
    """Whole batch that, by its header, contains a matching record."""

    batch: bytes
    header: BatchHeader


def batch_for_timestamp(segments: Segments, timestamp: int, start_offset: int) -> Candidate | int | None:
    """Return the first batch at or after start_offset whose max timestamp is at least `timestamp`, or None.

    After HEADERS_AT_ONCE batches, return the offset from which the search must continue. The index gives only the
    largest timestamp of a segment: its batch may be below start_offset, or compacted away.
    """
    headers = 0
    for segment in segments.with_timestamps(segments.from_offset(start_offset)):
        if segment.max_timestamp < timestamp:
            continue
        first = max(segment.offset_before_timestamp(timestamp), start_offset)
        for position, header in segment.walk(segment.position_of(first)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                return Candidate(segment.read_batch(position, header), header)
            headers += 1
            if headers == HEADERS_AT_ONCE:
                return max(header.next_offset, start_offset)
    return None


def appended_bytes(segments: Segments, start_offset: int, end_offset: int, log_end_offset: int) -> int:
    """Return the size of the batches between two offsets, 0 if it is unknown without reading.

    It is known for the newest batches of the active segment.
    """
    active = segments.active
    start = active.known_position(start_offset)
    end = active.size if end_offset == log_end_offset else active.known_position(end_offset)
    return end - start if 0 <= start < end else 0


def max_timestamp(segments: Segments, start_offset: int) -> tuple[int, int] | None:
    """Return the largest timestamp (-1 if no record has one) and the last offset of the first batch that has it.

    The segment that contains start_offset counts as a whole, as in Kafka. None if there is no batch.
    """
    best: Segment | None = None
    for segment in segments.with_timestamps(segments.from_offset(start_offset)):
        if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    return None if best is None else (best.max_timestamp, best.offset_of_max_timestamp)


def aborted_transactions(
    segments: Segments, start_offset: int, end_offset: int, entries_of: Callable[[Segment], list[AbortedTransaction]]
) -> list[AbortedTransaction]:
    """Return the aborted transactions that have records in start_offset..end_offset.

    Entries are in the order of their markers; those whose marker is below start_offset are skipped.
    """
    found: list[AbortedTransaction] = []
    previous_entry_is_past_end = False
    for segment in segments.from_offset(start_offset):
        entries = entries_of(segment)
        for index in range(bisect_left(entries, start_offset, key=_marker_offset), len(entries)):
            transaction = entries[index]
            if transaction.first_offset < end_offset:
                found.append(transaction)
            # If the stored last stable offset is at or above end_offset, no later entry begins below end_offset.
            # transaction_check cannot verify this field against the log, so two consecutive entries must agree.
            if previous_entry_is_past_end and transaction.last_stable_offset >= end_offset:
                return found
            previous_entry_is_past_end = transaction.last_stable_offset >= end_offset
    return found


def end_offset_of(batches: bytes) -> int:
    """Return the offset after the last one of one or more whole batches."""
    position = last = 0
    while position < len(batches):
        last = position
        position += _LENGTH.unpack_from(batches, position + LENGTH_POSITION)[0] + LENGTH_OVERHEAD
    return parse_header(batches, last).next_offset


def _marker_offset(transaction: AbortedTransaction) -> int:
    return transaction.last_offset
