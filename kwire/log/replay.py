"""Deriving producer state, and with it the transaction index, from the batches of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.producer_state import CompletedTransaction, ProducerState
from kwire.log.segment import Segment
from kwire.protocol.control_records import decode_marker
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, BatchHeader

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog

Batch = bytes | memoryview


def replay_producers(log: PartitionLog) -> None:
    """The producer state of the whole log: from its newest snapshot, then from the batches after it."""
    log.snapshots.load_latest(log.producers, log.log_start_offset, log.log_end_offset)
    for segment in log.segments.from_offset(log.producers.end_offset):
        replay_segment(segment, log.producers, log.producers.end_offset)
    log.producers.end_offset = log.log_end_offset


def replay_segment(segment: Segment, producers: ProducerState, start_offset: int) -> None:
    """Take a segment's batches from start_offset on into producers."""
    for position, header in segment.walk(segment.position_of(start_offset)):
        if header.base_offset >= start_offset and header.producer_id != NO_PRODUCER_ID:
            batch = segment.read_batch(position, header) if header.attributes & CONTROL_FLAG else b""
            replay_batch(header, batch, producers)
    producers.end_offset = max(producers.end_offset, segment.next_offset())


def replay_batch(header: BatchHeader, batch: Batch, producers: ProducerState) -> CompletedTransaction | None:
    """Take one batch with a producer id; batch is looked into only if it is a control batch."""
    if not header.attributes & CONTROL_FLAG:
        producers.update(header, header.base_offset)
        return None
    marker = decode_marker(batch)
    return None if marker is None else producers.update_marker(header, marker, header.base_offset)
