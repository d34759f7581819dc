"""Metadata log in memory that can lose its unflushed tail: the LogView for the quorum's tests."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.quorum.log_view import OffsetAndEpoch
from kwire.cluster.quorum.voter_history import QuorumRecord, quorum_records
from kwire.cluster.raft.control_batches import control_batch
from kwire.protocol.records import Record, encode_batch, iterate_headers


@dataclass(frozen=True, slots=True)
class Batch:
    base: int
    end: int
    epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """Contents of a disk."""

    batches: tuple[Batch, ...] = ()
    start: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of a test: all batches before its end, and the voters."""

    batches: tuple[Batch, ...]
    records: tuple[QuorumRecord, ...]


@functools.lru_cache(maxsize=64)
def unpacked(data: bytes) -> Snapshot:
    snapshot: Snapshot = pickle.loads(data)
    return snapshot


@dataclass(slots=True)
class MemoryLog:
    """Implementation of LogView in memory."""

    now: Content = field(default_factory=Content)
    durable: Content = field(default_factory=Content)
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)

    # --- LogView

    @property
    def start_offset(self) -> int:
        return self.now.start

    @property
    def end_offset(self) -> int:
        return self.now.batches[-1].end if self.now.batches else self.now.start

    @property
    def flushed_end_offset(self) -> int:
        return self.durable.batches[-1].end if self.durable.batches else self.durable.start

    @property
    def last_epoch(self) -> int:
        if self.now.batches:
            return self.now.batches[-1].epoch
        latest = self.latest_snapshot_id
        return latest.epoch if latest is not None else 0

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = [batch for batch in self.now.batches if batch.epoch <= epoch]
        if found:
            return OffsetAndEpoch(found[-1].end, found[-1].epoch)
        earliest = self.earliest_snapshot_id
        if earliest is not None and earliest.offset == self.start_offset:
            return earliest
        return OffsetAndEpoch(self.start_offset, 0)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        found = self.snapshots.get(snapshot_id)
        return len(found) if found is not None else None

    # --- actions of drivers

    def append(self, epoch: int, value: str) -> None:
        base = self.end_offset
        data = encode_batch([Record(value=value.encode(), timestamp=0)], base_offset=base, partition_leader_epoch=epoch)
        self._add(Batch(base, base + 1, epoch, bytes(data)))

    def append_control(self, epoch: int, records: list[Any]) -> int:
        base = self.end_offset
        data = control_batch(records, base_offset=base, epoch=epoch, timestamp_ms=0)
        self._add(Batch(base, base + len(records), epoch, bytes(data)))
        return base

    def append_records(self, data: bytes, epoch_max: int) -> None:
        for position, header in iterate_headers(data):
            is_next = header.base_offset == self.end_offset
            if is_next and self.last_epoch <= header.partition_leader_epoch <= epoch_max:
                whole = bytes(data[position : position + header.size_in_bytes])
                self._add(Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, whole))

    def _add(self, batch: Batch) -> None:
        assert batch.epoch >= self.last_epoch, "epochs in a log grow"
        self.now = Content((*self.now.batches, batch), self.now.start)

    def flush(self) -> None:
        self.durable = self.now

    def crash(self) -> None:
        self.now = self.durable

    def truncate(self, offset: int) -> list[Batch]:
        """Truncate the log durably and return the removed batches."""
        gone = [batch for batch in self.now.batches if batch.end > offset]
        kept = tuple(batch for batch in self.now.batches if batch.end <= offset)
        self.now = Content(kept, self.now.start)
        self.durable = Content(
            tuple(batch for batch in self.durable.batches if batch.end <= offset), self.durable.start
        )
        return gone

    def read(self, offset: int, batches_max: int = 20) -> bytes:
        wanted = [batch.data for batch in self.now.batches if batch.end > offset]
        return b"".join(wanted[:batches_max])

    # --- snapshots

    def take_snapshot(self, offset: int, records: tuple[QuorumRecord, ...]) -> OffsetAndEpoch | None:
        """Create a snapshot of all batches before `offset`, the end of a batch; the log starts there afterwards."""
        before = tuple(batch for batch in self.now.batches if batch.end <= offset)
        if not before or before[-1].end != offset or self.flushed_end_offset < offset:
            return None
        snapshot_id = OffsetAndEpoch(offset, before[-1].epoch)
        whole = (*self.snapshot_batches(), *before)
        self.snapshots = {snapshot_id: pickle.dumps(Snapshot(whole, records))}
        self.now = Content(tuple(batch for batch in self.now.batches if batch.end > offset), offset)
        self.durable = Content(tuple(batch for batch in self.durable.batches if batch.end > offset), offset)
        return snapshot_id

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes) -> Snapshot:
        snapshot = unpacked(data)
        self.snapshots = {snapshot_id: data}
        self.now = self.durable = Content((), snapshot_id.offset)
        return snapshot

    def snapshot_batches(self) -> tuple[Batch, ...]:
        latest = self.latest_snapshot_id
        return unpacked(self.snapshots[latest]).batches if latest is not None else ()

    def all_batches(self) -> tuple[Batch, ...]:
        return (*self.snapshot_batches(), *self.now.batches)

    def records(self) -> Iterator[tuple[int, QuorumRecord]]:
        """Yield the records of the snapshot and of the log, for a quorum that starts."""
        latest = self.latest_snapshot_id
        if latest is not None:
            for record in unpacked(self.snapshots[latest]).records:
                yield latest.offset - 1, record
        for batch in self.now.batches:
            yield from quorum_records(batch.data)

    def bootstrap(self, records: tuple[QuorumRecord, ...]) -> None:
        """Write the records that formatting with voters writes."""
        self.snapshots = {OffsetAndEpoch(0, 0): pickle.dumps(Snapshot((), records))}
