"""Searches in a log by something else than an offset: by timestamp, and for aborted transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kwire.log.segment import Segment
from kwire.log.segments import Segments
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.records import BatchHeader, Record, decode_batch


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def offset_for_timestamp(segments: Segments, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """The first record at or after start_offset whose timestamp is at least this one."""
    for segment in segments.from_offset(start_offset):
        segment.load()
        if segment.max_timestamp < timestamp:
            continue
        first = max(segment.offset_before_timestamp(timestamp), start_offset)
        for position, header in segment.walk(segment.position_of(first)):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def max_timestamp_offset(segments: Segments, start_offset: int) -> TimestampOffset | None:
    """The first record with the largest timestamp of the segments in use; it may lie below start_offset, as Kafka's."""
    best: Segment | None = None
    for segment in segments.from_offset(start_offset):
        segment.load()
        if segment.size and segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    position = best.position_of(best.offset_of_max_timestamp)
    for at, header in best.walk(position):
        for record in _records(best, at, header):
            if record.timestamp == best.max_timestamp:
                return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def aborted_transactions(
    segments: Segments, start_offset: int, end_offset: int, entries_of: Callable[[Segment], list[AbortedTransaction]]
) -> list[AbortedTransaction]:
    """The aborted transactions that have records in start_offset..end_offset."""
    found: list[AbortedTransaction] = []
    are_decided = False
    for segment in segments.from_offset(start_offset):
        for transaction in entries_of(segment):
            if transaction.last_offset >= start_offset and transaction.first_offset < end_offset:
                found.append(transaction)
            # When this marker came, everything below end_offset was decided: later entries concern later records. No
            # batch tells whether this number is as it was written, so two must say so.
            if are_decided and transaction.last_stable_offset >= end_offset:
                return found
            are_decided = transaction.last_stable_offset >= end_offset
    return found


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return decode_batch(segment.read_batch(position, header))
