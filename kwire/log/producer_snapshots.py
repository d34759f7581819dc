"""Producer state on disk: <offset>.snapshot files, with which recovery need not replay the whole log.

    int16 version (1), uint32 CRC-32C of what follows, int32 count, then per producer:
    int64 producer id; int16 epoch; int32 last sequence; int64 last offset; int32 offset delta of the last batch;
    int64 timestamp; int32 coordinator epoch; int64 first offset of the open transaction (-1: none)

A snapshot named N is the state of the log up to, not including, offset N. It is written when a segment or the log is
closed. A snapshot with a wrong CRC is removed, and the previous one is used.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from crc32c import crc32c

from kwire.log.disk import Disk, DiskFullError
from kwire.log.producer_state import ProducerEntry, ProducerState, StoredBatch
from kwire.protocol.records import NO_SEQUENCE

logger = logging.getLogger(__name__)

SUFFIX: Final = ".snapshot"
VERSION: Final = 1
ENTRIES_AT_ONCE: Final = 512
"""Producers that are decoded in one step on the event loop, which takes about a millisecond."""
_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_COVERS_FROM: Final = 6


class CorruptSnapshotError(Exception):
    """Snapshot file with invalid content."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    rows = [_encode_entry(entry) for entry in entries]
    body = struct.pack(">i", len(rows)) + b"".join(rows)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else StoredBatch(NO_SEQUENCE, -1, 0, -1)
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_transaction_first_offset,
    )


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    """Return the producers of a snapshot. Raises CorruptSnapshotError."""
    return [_decode_entry(row) for row in _checked_rows(data, path)]


def _checked_rows(data: bytes, path: str) -> Iterator[tuple[int, ...]]:
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"{path}: {len(data)} bytes are too few for a snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"{path}: unknown version {version}")
    if crc != crc32c(data[_CRC_COVERS_FROM:]):
        raise CorruptSnapshotError(f"{path}: its CRC is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{path}: {count} producers announced in {len(data)} bytes")
    return _ENTRY.iter_unpack(data[_HEADER.size :])


def _decode_entry(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = row
    entry = ProducerEntry(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_transaction_first_offset=first_offset,
    )
    if last_offset >= 0:
        entry.batches.append(StoredBatch(last_sequence, last_offset, offset_delta, timestamp))
    return entry


class ProducerSnapshots:
    """Snapshot files in one log's directory."""

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"

    def write(self, state: ProducerState, offset: int) -> None:
        """Write the state at `offset`, unless the disk is full.

        The file is not synced: its CRC reveals an incomplete file, and the state can be rebuilt.
        """
        if offset in self.offsets:
            return
        try:
            self._disk.replace(self.path(offset), encode_snapshot(state.entries.values()), sync=False)
        except DiskFullError as error:
            logger.warning("The disk is full: %s; the next start will rebuild the producer state from the log", error)
            return
        self.offsets.append(offset)
        self.offsets.sort()

    def load_latest(self, state: ProducerState, start_offset: int, end_offset: int) -> None:
        """Set the state to that of the newest valid snapshot at or below end_offset, or to empty at start_offset."""
        for _ in self.load_latest_in_steps(state, start_offset, end_offset):
            pass

    def load_latest_in_steps(self, state: ProducerState, start_offset: int, end_offset: int) -> Iterator[None]:
        """Do what `load_latest` does, ENTRIES_AT_ONCE at a time."""
        state.clear(start_offset)
        for offset in reversed(self.offsets):
            if offset > end_offset or offset < start_offset:
                continue
            path = self.path(offset)
            try:
                rows = _checked_rows(self._disk.read(path), path)
            except (CorruptSnapshotError, FileNotFoundError) as error:
                logger.warning("Ignoring a producer snapshot: %s", error)
                self.remove(offset)
                continue
            entries: list[ProducerEntry] = []
            while some := list(islice(rows, ENTRIES_AT_ONCE)):
                entries += map(_decode_entry, some)
                if len(some) == ENTRIES_AT_ONCE:
                    yield
            state.put_all(entries)
            state.end_offset = offset
            return

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._disk.unlink(self.path(offset))

    def remove_from(self, offset: int) -> None:
        """Remove snapshots above `offset`, after a truncation of the log."""
        for known in [known for known in self.offsets if known > offset]:
            self.remove(known)

    def remove_strays(self, base_offsets: set[int]) -> None:
        """Remove snapshots that belong to no segment, except the last one if it is beyond all segments."""
        for offset in [known for known in self.offsets[:-1] if known not in base_offsets]:
            self.remove(offset)
        if self.offsets and self.offsets[-1] not in base_offsets and self.offsets[-1] < max(base_offsets, default=-1):
            self.remove(self.offsets[-1])
