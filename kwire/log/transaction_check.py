"""Aborted transactions, believed only where the batches say the same.

A .txnindex file has no checksum, and what it says decides which records a read_committed consumer sees and which ones
compaction removes. So what a start found in it is compared with the log when it is first used, entry by entry: at the
last offset there is that producer's abort marker, at the first offset a transactional batch of it, and none before it.
If that is not so, or if the segment's other indexes had to be made again, its entries are derived from the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kwire.log.disk import DiskFullError
from kwire.log.producer_state import ProducerState
from kwire.log.replay import replay_batch, replay_segment
from kwire.log.segment import Segment
from kwire.log.segments import Segments
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.control_records import decode_marker
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

WALK_BYTES: Final = 8 * 1024 * 1024
"""How far into a segment each batch is looked at: this runs on the event loop, before the first answer."""


def checked_transactions(log: PartitionLog, segment: Segment) -> list[AbortedTransaction]:
    """The aborted transactions whose markers are in segment."""
    index = segment.transaction_index
    if not index.is_believed and not (_are_sound(log, segment) and not index.is_doubted):
        logger.warning("%s does not say what its log does: deriving it again", index.path)
        derived = _derived(log, segment)
        try:
            index.replace(derived)
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the aborted transactions are derived each time", error)
            return derived
        segment.write_rebuilt()
    index.is_believed = True
    entries = index.entries()
    if segment.memory is not None:
        segment.memory.use(segment)
    return entries


def _are_sound(log: PartitionLog, segment: Segment) -> bool:
    segment.load()
    if segment.transaction_index.is_doubted:
        return False
    entries = segment.transaction_index.entries()
    ends = [entry.last_offset for entry in entries]
    return (
        not segment.transaction_index.is_malformed
        and ends == sorted(set(ends))
        and all(_ends_at_its_marker(segment, entry) and _begins_at_its_batch(log.segments, entry) for entry in entries)
        and (not entries or _begin_where_they_say(log, segment, entries))
    )


def _begin_where_they_say(log: PartitionLog, segment: Segment, entries: list[AbortedTransaction]) -> bool:
    """By the producers at the segment's start, and by walking over its first batches.

    What lies below the log's start does not count: a producer may be forgotten that had begun something there.
    """
    at_start = _open_at_start(log, segment)
    if at_start is None:
        at_start = {
            entry.producer_id: entry.first_offset for entry in entries if entry.first_offset < segment.base_offset
        }
    for entry in entries:
        if entry.first_offset < segment.base_offset and at_start.get(entry.producer_id) != entry.first_offset:
            return False
    wanted = {entry.first_offset: entry.producer_id for entry in entries}
    in_transaction = {producer_id for producer_id, first in at_start.items() if first >= log.log_start_offset}
    for position, header in segment.walk(0):
        if position > WALK_BYTES:
            break
        if header.last_offset < log.log_start_offset:
            continue
        if wanted.get(header.base_offset) == header.producer_id and header.producer_id in in_transaction:
            return False
        if header.attributes & CONTROL_FLAG:
            in_transaction.discard(header.producer_id)
        elif header.attributes & TRANSACTIONAL_FLAG:
            in_transaction.add(header.producer_id)
    return True


def _open_at_start(log: PartitionLog, segment: Segment) -> dict[int, int] | None:
    """First offset of the transaction that each producer was in, None if no snapshot tells."""
    producers = ProducerState()
    log.snapshots.load_latest(producers, segment.base_offset, segment.base_offset)
    if segment.base_offset not in log.snapshots.offsets:
        return None
    firsts = {known.producer_id: known.current_transaction_first_offset for known in producers.entries.values()}
    return {producer_id: first for producer_id, first in firsts.items() if first >= 0}


def _ends_at_its_marker(segment: Segment, entry: AbortedTransaction) -> bool:
    position = segment.position_of(entry.last_offset)
    header = segment.header_at(position)
    if header is None or header.base_offset != entry.last_offset or header.producer_id != entry.producer_id:
        return False
    if not header.attributes & CONTROL_FLAG:
        return False
    marker = decode_marker(segment.read_batch(position, header))
    return marker is not None and not marker.is_commit


def _begins_at_its_batch(segments: Segments, entry: AbortedTransaction) -> bool:
    """True also where retention or compaction has taken that batch, as nothing is left to compare with."""
    if not 0 <= entry.first_offset <= entry.last_offset:
        return False
    if entry.first_offset < segments.first.base_offset:
        return True
    segment = segments[segments.index_of(entry.first_offset)]
    header = segment.header_at(segment.position_of(entry.first_offset))
    if header is None or header.base_offset > entry.first_offset:
        return True
    is_its_own = header.producer_id == entry.producer_id and bool(header.attributes & TRANSACTIONAL_FLAG)
    return is_its_own and header.base_offset == entry.first_offset


def _derived(log: PartitionLog, segment: Segment) -> list[AbortedTransaction]:
    """From the producers at the segment's start, and its markers."""
    producers = ProducerState()
    log.snapshots.load_latest(producers, log.log_start_offset, segment.base_offset)
    for earlier in log.segments.from_offset(producers.end_offset):
        if earlier.base_offset < segment.base_offset:
            replay_segment(earlier, producers, producers.end_offset)
    found = []
    for position, header in segment.walk(0):
        if header.producer_id == NO_PRODUCER_ID:
            continue
        batch = segment.read_batch(position, header) if header.attributes & CONTROL_FLAG else b""
        completed = replay_batch(header, batch, producers)
        if completed is not None and completed.is_aborted:
            found.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
                )
            )
    return found
