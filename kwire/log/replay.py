"""Replay of a log's batches: derives the producer state and the transaction index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_at_once, ready_in_steps
from kwire.log.producer_state import BATCHES_KEPT, ProducerState, StoredBatch
from kwire.log.segment import Segment
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.control_records import decode_marker
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, BatchHeader

Batch = bytes | memoryview

BATCHES_AT_ONCE: Final = 512
"""Batches that are replayed in one step on the event loop, which takes a few milliseconds."""
RECALL_BYTES: Final = 64 * 1024
"""Distance from the log's end within which recent batches are searched: cheap for thousands of partitions at start."""


def replay_producers(log: LogState) -> None:
    """Derive the producer state of the whole log from its newest snapshot and the batches after it."""
    for _ in replay_producers_in_steps(log):
        pass


def replay_producers_in_steps(log: LogState) -> Iterator[None]:
    """Do what `replay_producers` does, BATCHES_AT_ONCE at a time, while nothing is appended."""
    producers = log.producers
    yield from log.snapshots.load_latest_in_steps(producers, log.log_start_offset, log.log_end_offset)
    for segment in log.segments.from_offset(producers.end_offset):
        yield from replay_in_steps(segment, producers, producers.end_offset)
    producers.end_offset = log.log_end_offset


def replay_segment(segment: Segment, producers: ProducerState, start_offset: int) -> None:
    """Replay a segment's batches from start_offset on; a log may start inside its first batch."""
    for _ in replay_in_steps(segment, producers, start_offset):
        pass


def replay_in_steps(segment: Segment, producers: ProducerState, start_offset: int) -> Iterator[None]:
    """Do what `replay_segment` does, BATCHES_AT_ONCE at a time."""
    start = yield from ready_in_steps(lambda: segment.position_of(start_offset))
    for count, (position, header) in enumerate(segment.walk(start), 1):
        if header.next_offset > start_offset and header.producer_id != NO_PRODUCER_ID:
            batch = segment.read_batch(position, header) if header.attributes & CONTROL_FLAG else b""
            replay_batch(header, batch, producers)
        if count % BATCHES_AT_ONCE == 0:
            yield
    end_offset = yield from ready_in_steps(segment.next_offset)
    producers.end_offset = max(producers.end_offset, end_offset)


def replay_batch(header: BatchHeader, batch: Batch, producers: ProducerState) -> AbortedTransaction | None:
    """Replay one batch with a producer id; `batch` is used only for control batches. See `apply_batch`."""
    return apply_batch(header, batch, producers, header.base_offset)


def apply_batch(
    header: BatchHeader, batch: Batch, producers: ProducerState, base_offset: int
) -> AbortedTransaction | None:
    """Add one batch that is stored at base_offset; return the transaction that it aborts, or None."""
    if not header.attributes & CONTROL_FLAG:
        producers.update(header, base_offset)
        return None
    marker = decode_marker(batch)
    if marker is None:
        return None
    completed = producers.update_marker(header, marker, base_offset)
    if completed is None or not completed.is_aborted:
        return None
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )


def recall_recent_batches(log: LogState) -> None:
    """Find each producer's batches before its last one near the log's end, because a snapshot has only the last.

    A producer that received no response because of a restart may retry any of its last five batches. Without this, the
    broker would report the older ones as a gap in the sequence.
    """
    active = log.segments.active
    found: dict[int, list[StoredBatch]] = {}
    epochs = {producer_id: entry.producer_epoch for producer_id, entry in log.producers.entries.items()}
    for _, header in ready_at_once(lambda: active.walk_from(max(0, active.size - RECALL_BYTES))):
        if header.attributes & CONTROL_FLAG or epochs.get(header.producer_id) != header.producer_epoch:
            continue
        batches = found.setdefault(header.producer_id, [])
        batches.append(
            StoredBatch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        del batches[:-BATCHES_KEPT]
    for producer_id, batches in found.items():
        entry = log.producers.entries[producer_id]
        if len(entry.batches) < len(batches) and entry.last_data_offset == batches[-1].last_offset:
            entry.batches = batches
