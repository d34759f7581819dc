"""Surroundings for logs in tests: a fixed clock, fixed random numbers, and helpers that build batches."""

from __future__ import annotations

import uuid
from pathlib import Path

from kwire.log.config import LogConfig
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import Surroundings, open_log
from kwire.protocol.compression import Codec, compress
from kwire.protocol.control_records import EndTransactionMarker, encode_marker_batch
from kwire.protocol.records import (
    BatchHeader,
    Record,
    assemble_batch,
    decode_all,
    encode_batch,
    encode_record,
    iterate_headers,
)

NOW_MS = 1_700_000_000_000


class ManualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> float:
        return float(self.now_ms)


class FixedChance:
    """Random source with a fixed uuid sequence, optionally from a later start; numbers are always the upper bound."""

    def __init__(self, *, drawn: int = 0) -> None:
        self._count = drawn

    def uuid(self) -> uuid.UUID:
        self._count += 1
        return uuid.UUID(int=self._count)

    def uniform(self, low: float, high: float) -> float:
        return high


def surroundings(
    disk: RealDisk | None = None, clock: ManualClock | None = None, random_source: FixedChance | None = None
) -> Surroundings:
    return Surroundings(
        disk=disk or RealDisk(), clock=clock or ManualClock(), random_source=random_source or FixedChance()
    )


def open_at(
    directory: Path,
    config: LogConfig | None = None,
    world: Surroundings | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> PartitionLog:
    return open_log(
        str(directory),
        topic="orders",
        partition=0,
        config=config or LogConfig(),
        surroundings=world or surroundings(),
        was_clean_shutdown=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    key: bytes | None = b"key",
) -> bytearray:
    """Return one batch as a client sends it, with a record for each value."""
    return encode_batch(
        [Record(key=key, value=value, timestamp=timestamp) for value in values or (b"value",)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytearray:
    return encode_marker_batch(
        EndTransactionMarker(is_commit=commit, coordinator_epoch=coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=NOW_MS,
    )


def changed(header: BatchHeader, **changes: int) -> BatchHeader:
    """Return a copy of a header with other fields."""
    copy = BatchHeader(*header.values())
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy


def headers(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iterate_headers(data)]


def everything(log: PartitionLog) -> list[Record]:
    """Return all records of the log, read in small steps as a consumer does."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000)
        if not data:
            break
        found = [record for record in decode_all(data) if record.offset >= offset]
        records += found
        offset = headers(data)[-1].next_offset
    return records


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in everything(log)]


def with_deltas(*records: tuple[int, bytes, bytes | None], offset_delta: int | None = None) -> bytearray:
    """Return a compressed batch of (timestamp delta, key, value) records with a valid header, even if records are
    invalid.
    """
    body = bytearray()
    for index, (timestamp_delta, key, value) in enumerate(records):
        delta = index if offset_delta is None else offset_delta
        encode_record(body, Record(key=key, value=value), delta, timestamp_delta)
    header = BatchHeader(0, 0, 0, 2, 0, Codec.GZIP, len(records) - 1, NOW_MS, NOW_MS + 1000, -1, -1, -1, len(records))
    return assemble_batch(header, compress(Codec.GZIP, body))


def retain(manager: LogManager) -> None:
    """Apply retention to every log; all records count as committed."""
    for log in list(manager.logs()):
        while manager.apply_retention(log, log.log_end_offset):
            pass
