"""Compaction round of one log: reads closed segments by a plan, and writes .cleaned segments.

First the dirty part is read, and the last offset of each key is stored as far as memory allows. Then everything from
the log's start up to there is rewritten, without the records that a later one made obsolete. Segments are cleaned in
groups, and each group becomes one segment. The files of a group are complete and durable when the group is reported;
the round does not wait for the swap.

A round depends only on its plan and the files. It runs in its own process, or inline in tests and simulations. It
writes nothing but .cleaned files.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.log.compaction.batches import chunks
from kwire.log.compaction.filtering import BatchFilter
from kwire.log.compaction.grouping import group_segments
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.plan import CleanedGroup, Progress, Report, RoundEnd, RoundPlan, SourceSegment
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.compaction.writer import SegmentWriter
from kwire.log.disk import Disk
from kwire.log.files import CLEANED_SUFFIX
from kwire.log.record_keys import keyed_records
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.records import BatchHeader, batch_body, iterate_records


def run_round(disk: Disk, plan: RoundPlan) -> Iterator[Report]:
    """Compact; the last report is the RoundEnd. Raises CorruptLogError, DiskFailure, InvalidRecordsError."""
    _clear(disk, plan.directory)
    outcome = RoundEnd()
    offset_map = OffsetMap(plan.offset_map_bytes)
    yield from _index(disk, plan, offset_map, outcome)
    outcome.end_offset = offset_map.latest_offset + 1
    outcome.keys = len(offset_map.offsets)
    yield from _Rewriting(disk, plan, offset_map, outcome).run()
    yield outcome


def _clear(disk: Disk, directory: str) -> None:
    """Remove files of an interrupted round, because recovery would treat them as part of an incomplete swap."""
    for name in disk.list(directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.unlink(f"{directory}/{name}")


def _index(disk: Disk, plan: RoundPlan, offset_map: OffsetMap, outcome: RoundEnd) -> Iterator[Progress]:
    """Store the last offset of each key from the first dirty offset on, until the map is full."""
    start = plan.first_dirty_offset
    transactions = CleanedTransactions((aborted for aborted in plan.aborted if aborted.last_offset >= start), None)
    for source in plan.segments:
        if source.end_offset <= start:
            continue
        for batches in chunks(disk, plan.directory, source):
            size = 0
            for header, batch in batches:
                if offset_map.is_full:
                    return
                _index_batch(header, batch, start, offset_map, transactions)
                if header.last_offset >= start:
                    offset_map.advance(header.last_offset)
                size += len(batch)
            outcome.bytes_indexed += size
            yield Progress(bytes_moved=size)
        # Offsets that are missing at a segment's end were compacted away and need no entry.
        offset_map.advance(source.end_offset - 1)


def _index_batch(
    header: BatchHeader, batch: memoryview, start: int, offset_map: OffsetMap, transactions: CleanedTransactions
) -> None:
    if header.is_control:
        transactions.is_marker_unneeded(header, list(iterate_records(header, batch_body(batch, 0, header))))
        return
    if transactions.is_aborted(header) or header.last_offset < start or not header.record_count:
        return
    records = keyed_records(batch_body(batch, 0, header), header.record_count)
    base_offset = header.base_offset
    offsets = [base_offset + delta for delta in records.offset_deltas]
    if base_offset >= start:
        offset_map.put(records.keys, offsets)
    else:
        first = sum(offset < start for offset in offsets)
        offset_map.put(records.keys[first:], offsets[first:])


class _Rewriting:
    """Second half of a round: writes the cleaned segments."""

    def __init__(self, disk: Disk, plan: RoundPlan, offset_map: OffsetMap, outcome: RoundEnd) -> None:
        self._disk = disk
        self._plan = plan
        self._outcome = outcome
        self._writer: SegmentWriter | None = None
        transactions = CleanedTransactions(plan.aborted, self._append_aborted)
        self._filter = BatchFilter(plan, offset_map, transactions, outcome)

    def run(self) -> Iterator[Report]:
        """Rewrite the segments group by group."""
        plan = self._plan
        sources = [source for source in plan.segments if source.base_offset < self._outcome.end_offset]
        for group in group_segments(sources, plan):
            if any(source.size for source in group):
                yield from self._rewrite(group)
                yield CleanedGroup(sources=tuple(source.base_offset for source in group))

    def _rewrite(self, group: list[SourceSegment]) -> Iterator[Progress]:
        has_transactions = any(source.has_transaction_index for source in group)
        writer = SegmentWriter(self._disk, self._plan, group[0].base_offset, has_transactions=has_transactions)
        self._writer = writer
        last_source = [source for source in group if source.size][-1]
        try:
            for source in group:
                position = 0
                for batches in chunks(self._disk, self._plan.directory, source):
                    before = writer.size
                    for header, batch in batches:
                        position += len(batch)
                        is_last = source is last_source and position == source.size
                        left = self._filter.kept(batch, header, is_last=is_last)
                        if left is not None:
                            writer.append(left, header)
                    read = sum(len(batch) for _, batch in batches)
                    self._outcome.bytes_read += read
                    yield Progress(bytes_moved=read + writer.size - before)
            self._outcome.bytes_written += writer.finish()
        finally:
            writer.close()

    def _append_aborted(self, transaction: AbortedTransaction) -> None:
        assert self._writer is not None
        self._writer.append_aborted(transaction)
