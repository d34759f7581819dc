"""Filter of a batch's records in compaction, and the batch that remains.

A record survives if no later record below the clean end has its key. A tombstone survives only until its batch's delete
horizon. Compaction sets that horizon (KIP-534) when it first reads a batch whose tombstones or marker may later be
removed: the horizon replaces the base timestamp, and all timestamp deltas are recomputed. Offsets never change, nor do
a batch's base and last offset, its producer fields and its codec. A batch that keeps all its records and gets no
horizon is copied unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.plan import LastRecord, RoundEnd, RoundPlan
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.record_keys import KeyedRecords, keyed_records, largest_timestamp
from kwire.protocol.compression import Codec, compress
from kwire.protocol.records import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    assemble_batch,
    batch_body,
    encode_record,
    iterate_records,
)

INT64_MAX: Final = 2**63 - 1


class BatchFilter:
    """Filter for the batches of one round, in the order of the log."""

    def __init__(
        self, plan: RoundPlan, offset_map: OffsetMap, transactions: CleanedTransactions, outcome: RoundEnd
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._outcome = outcome
        self._now_ms = plan.now_ms
        self._new_horizon_ms = min(plan.now_ms + plan.delete_retention_ms, INT64_MAX)
        self._last_records: dict[int, LastRecord] = {record.producer_id: record for record in plan.last_records}

    def kept(self, batch: memoryview, header: BatchHeader, *, is_last: bool) -> bytes | bytearray | memoryview | None:
        """Return what remains of a batch; None if it is removed.

        The last batch of a group is kept, if necessary without records, so that recovery can determine which segments
        the new one replaces.
        """
        self._outcome.records_read += header.record_count
        if header.is_control:
            left = self._kept_control(batch, header)
        elif self._transactions.is_aborted(header) or not header.record_count:
            left = None
        elif header.base_offset > self._map.latest_offset:
            self._outcome.records_written += header.record_count
            left = batch
        else:
            left = self._kept_data(batch, header)
        if left is None and (is_last or self._is_last_of_producer(header)):
            return _emptied(header)
        return left

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _kept_control(self, batch: memoryview, header: BatchHeader) -> bytes | bytearray | memoryview | None:
        records = list(iterate_records(header, batch_body(batch, 0, header)))
        is_done = self._transactions.is_marker_unneeded(header, records)
        if not records or (is_done and header.has_delete_horizon and header.base_timestamp <= self._now_ms):
            return None
        self._outcome.records_written += len(records)
        if is_done and not header.has_delete_horizon:
            return _with_horizon(header, records, self._new_horizon_ms)
        return batch

    def _kept_data(self, batch: memoryview, header: BatchHeader) -> bytes | bytearray | memoryview | None:
        body = batch_body(batch, 0, header)
        records = keyed_records(body, header.record_count)
        base_offset = header.base_offset
        offsets = [base_offset + delta for delta in records.offset_deltas]
        found = list(map(self._map.offsets.get, records.keys))
        if found == offsets or not any(found):
            chosen: Sequence[int] = range(len(found))
        else:
            pairs = enumerate(zip(found, offsets, strict=True))
            chosen = [index for index, (last, offset) in pairs if last is None or last <= offset]
        if records.tombstones:
            chosen = self._without_expired(chosen, records, header)
        if None in records.keys:
            chosen = self._with_keys(chosen, records)
        if not chosen:
            return None
        self._outcome.records_written += len(chosen)
        if not header.has_delete_horizon and not records.tombstones.isdisjoint(chosen):
            every = list(iterate_records(header, body))
            return _with_horizon(header, [every[index] for index in chosen], self._new_horizon_ms)
        if len(chosen) == header.record_count:
            return batch
        return _thinned(header, body, records, list(chosen))

    def _without_expired(self, chosen: Sequence[int], records: KeyedRecords, header: BatchHeader) -> Sequence[int]:
        """Drop the tombstones whose delete horizon has passed."""
        if not header.has_delete_horizon or self._now_ms < header.base_timestamp:
            return chosen
        return [index for index in chosen if index not in records.tombstones]

    def _with_keys(self, chosen: Sequence[int], records: KeyedRecords) -> Sequence[int]:
        with_keys = [index for index in chosen if records.keys[index] is not None]
        self._outcome.keyless_records += len(chosen) - len(with_keys)
        return with_keys


def _thinned(header: BatchHeader, body: bytes, records: KeyedRecords, chosen: list[int]) -> bytearray:
    """Return the batch with a subset of its records, whose bytes are unchanged."""
    starts = records.starts
    left = bytearray()
    begin = end = starts[chosen[0]]
    for index in chosen:
        if starts[index] != end:
            left += body[begin:end]
            begin = starts[index]
        end = starts[index + 1]
    left += body[begin:end]
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = largest_timestamp(body, starts, chosen, header.base_timestamp)
    return _assemble(header, left, len(chosen), header.base_timestamp, max_timestamp, header.attributes)


def _with_horizon(header: BatchHeader, records: list[Record], horizon_ms: int) -> bytearray:
    """Return the batch with these records and a delete horizon."""
    body = bytearray()
    for record in records:
        encode_record(body, record, record.offset - header.base_offset, record.timestamp - horizon_ms)
    max_timestamp = max(record.timestamp for record in records)
    return _assemble(header, body, len(records), horizon_ms, max_timestamp, header.attributes | DELETE_HORIZON_FLAG)


def _assemble(
    header: BatchHeader, body: bytearray, count: int, base_timestamp: int, max_timestamp: int, attributes: int
) -> bytearray:
    codec = Codec(attributes & CODEC_MASK)
    changed = BatchHeader(
        header.base_offset,
        0,
        header.partition_leader_epoch,
        header.magic,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return assemble_batch(changed, compress(codec, body) if codec else body)


def _emptied(header: BatchHeader) -> bytearray:
    """Return the batch without records; its header keeps the offsets and the producer's state."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return _assemble(header, bytearray(), 0, NO_TIMESTAMP, header.max_timestamp, attributes)
