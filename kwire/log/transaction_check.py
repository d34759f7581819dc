"""Verification of a segment's aborted transactions against its batches.

A .txnindex file has no checksum, and its entries decide which records a read_committed consumer receives and which ones
compaction removes. Entries that existed at start are therefore compared with the log when they are first used. The last
offset must be that of the producer's abort marker. The first offset must be that of a transactional batch of the
producer, and the transaction must have no batch before it. If an entry does not match, or if the segment's other
indexes had to be rebuilt, the entries are derived from the log.

A segment may have a hundred thousand entries and millions of batches. The comparison proceeds one step per call, and
raises NotReadyError until it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from functools import partial
from typing import Final

from kwire.log.disk import DiskFullError
from kwire.log.errors import NotReadyError
from kwire.log.log_state import LogState
from kwire.log.not_ready import ready_in_steps
from kwire.log.producer_state import ProducerState
from kwire.log.replay import BATCHES_AT_ONCE, replay_batch, replay_in_steps
from kwire.log.segment import Segment
from kwire.log.segments import Segments
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.control_records import decode_marker
from kwire.protocol.records import CONTROL_FLAG, NO_PRODUCER_ID, TRANSACTIONAL_FLAG

logger = logging.getLogger(__name__)

ENTRIES_AT_ONCE: Final = 8
"""Entries that are compared in one step: each takes two searches in the log, up to 0.5 ms."""
WALK_BYTES: Final = 8 * 1024 * 1024
"""Size of the part of a segment in which each batch is checked."""


def checked_transactions(log: LogState, segment: Segment) -> list[AbortedTransaction]:
    """Return the aborted transactions whose markers are in the segment.

    Raises NotReadyError during the comparison with the log; each call does one step.
    """
    index = segment.transaction_index
    if index.is_in_memory_only:
        _write(segment, index.entries())
    elif not index.is_checked:
        _check_one_step(log, segment)
    entries = index.entries()
    if segment.memory is not None:
        segment.memory.use(segment)
    return entries


def _check_one_step(log: LogState, segment: Segment) -> None:
    index = segment.transaction_index
    steps = index.check or _check(log, segment)
    index.check = None  # if a step fails, there is nothing to continue
    for _ in steps:
        index.check = steps
        raise NotReadyError


def _check(log: LogState, segment: Segment) -> Iterator[None]:
    """Compare the entries and derive them if needed; start again if the log's segments change between two steps."""
    while True:
        changes = log.segments.changes
        for _ in _compare(log, segment):
            yield
            if log.segments.changes != changes:
                break
        else:
            return


def _compare(log: LogState, segment: Segment) -> Iterator[None]:
    index = segment.transaction_index
    if not (yield from _are_sound(log, segment)) or index.is_suspect:
        logger.warning("%s does not match its log: rebuilding it", index.path)
        _write(segment, (yield from _derived(log, segment)))
    index.is_checked = not index.is_in_memory_only


def _write(segment: Segment, derived: list[AbortedTransaction]) -> None:
    try:
        segment.transaction_index.replace(derived)
    except DiskFullError as error:
        logger.warning("The disk is full: %s; the aborted transactions stay in memory", error)
    else:
        segment.write_rebuilt()


def _are_sound(log: LogState, segment: Segment) -> Generator[None, None, bool]:
    yield from ready_in_steps(segment.load)
    if segment.transaction_index.is_suspect:
        return False
    entries = list(segment.transaction_index.entries())
    ends = [entry.last_offset for entry in entries]
    if segment.transaction_index.is_malformed or ends != sorted(set(ends)):
        return False
    for count, entry in enumerate(entries, 1):
        if not (yield from ready_in_steps(partial(_is_in_log, log, segment, entry))):
            return False
        if count % ENTRIES_AT_ONCE == 0:
            yield
    return not entries or (yield from _first_offsets_match(log, segment, entries))


def _first_offsets_match(
    log: LogState, segment: Segment, entries: list[AbortedTransaction]
) -> Generator[None, None, bool]:
    """Check that no transaction begins before its entry's first offset.

    This uses the producers at the segment's start and its first batches. Batches below the log start do not count,
    because the state of their producers may have been removed.
    """
    at_start = yield from _open_at_start(log, segment)
    if at_start is None:
        at_start = {
            entry.producer_id: entry.first_offset for entry in entries if entry.first_offset < segment.base_offset
        }
    for entry in entries:
        if entry.first_offset < segment.base_offset and at_start.get(entry.producer_id) != entry.first_offset:
            return False
    expected = {entry.first_offset: entry.producer_id for entry in entries}
    in_transaction = {producer_id for producer_id, first in at_start.items() if first >= log.log_start_offset}
    for count, (position, header) in enumerate(segment.walk(0), 1):
        if position > WALK_BYTES:
            break
        if count % BATCHES_AT_ONCE == 0:
            yield
        if header.last_offset < log.log_start_offset:
            continue
        if expected.get(header.base_offset) == header.producer_id and header.producer_id in in_transaction:
            return False
        if header.attributes & CONTROL_FLAG:
            in_transaction.discard(header.producer_id)
        elif header.attributes & TRANSACTIONAL_FLAG:
            in_transaction.add(header.producer_id)
    return True


def _open_at_start(log: LogState, segment: Segment) -> Generator[None, None, dict[int, int] | None]:
    """Return the first offset of each producer's open transaction at the segment's start, None without a snapshot."""
    producers = ProducerState()
    yield from log.snapshots.load_latest_in_steps(producers, segment.base_offset, segment.base_offset)
    if segment.base_offset not in log.snapshots.offsets:
        return None
    return producers.ongoing_transactions()


def _is_in_log(log: LogState, segment: Segment, entry: AbortedTransaction) -> bool:
    return _ends_at_its_marker(segment, entry) and _begins_at_its_batch(log.segments, entry)


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
    """Return True if the entry begins at a batch of its transaction, or if that batch was removed."""
    if not 0 <= entry.first_offset <= entry.last_offset:
        return False
    if entry.first_offset < segments.first.base_offset:
        return True
    segment = segments[segments.index_of(entry.first_offset)]
    header = segment.header_at(segment.position_of(entry.first_offset))
    if header is None or header.base_offset > entry.first_offset:
        return True
    is_same_transaction = header.producer_id == entry.producer_id and bool(header.attributes & TRANSACTIONAL_FLAG)
    return is_same_transaction and header.base_offset == entry.first_offset


def _derived(log: LogState, segment: Segment) -> Generator[None, None, list[AbortedTransaction]]:
    """Derive the entries from the producers at the segment's start and its markers, including new ones."""
    producers = ProducerState()
    yield from log.snapshots.load_latest_in_steps(producers, log.log_start_offset, segment.base_offset)
    for earlier in log.segments.from_offset(producers.end_offset):
        if earlier.base_offset < segment.base_offset:
            yield from replay_in_steps(earlier, producers, producers.end_offset)
    found: list[AbortedTransaction] = []
    walked = count = 0
    while walked < segment.size:
        for position, header in segment.walk(walked):
            walked = position + header.size_in_bytes
            count += 1
            if header.producer_id != NO_PRODUCER_ID:
                batch = segment.read_batch(position, header) if header.attributes & CONTROL_FLAG else b""
                aborted = replay_batch(header, batch, producers)
                if aborted is not None:
                    found.append(aborted)
            if count % BATCHES_AT_ONCE == 0:
                yield
    return found
