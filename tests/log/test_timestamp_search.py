"""Timestamp search through batches that are large, have wrong headers, or are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.log.batch_opening import OPENED_AT_ONCE_BYTES_MAX
from kwire.log.config import LogConfig
from kwire.log.lookup import HEADERS_AT_ONCE
from kwire.log.partition_log import PartitionLog
from kwire.log.timestamp_search import RECORDS_AT_ONCE, TimestampOffset, TimestampSearch
from kwire.protocol.compression import Codec, compress
from kwire.protocol.records import BatchHeader, InvalidRecordsError, append_varint, assemble_batch
from tests.hostile.frames import with_crc
from tests.log.searching import InPlace, max_timestamp_offset, offset_for_timestamp, through
from tests.log.support import NOW_MS, batch, open_at

COUNT = 200_000


def packed(body: bytes, count: int, *, max_timestamp: int, codec: Codec = Codec.ZSTD) -> bytes:
    """Return a batch with these records, valid or not."""
    header = BatchHeader(*open_header(codec, count, max_timestamp))
    return bytes(with_crc(bytearray(assemble_batch(header, compress(codec, body)))))


def open_header(codec: Codec, count: int, max_timestamp: int) -> tuple[int, ...]:
    return (0, 0, -1, 2, 0, int(codec), count - 1, NOW_MS, max_timestamp, -1, -1, -1, count)


def plain(*values: bytes, timestamp: int) -> bytes:
    return bytes(batch(*values, timestamp=timestamp))


def record(timestamp_delta: int, offset_delta: int) -> bytes:
    fields = bytearray(1)
    append_varint(fields, timestamp_delta)
    append_varint(fields, offset_delta)
    fields += b"\x01\x01\x00"  # null key, null value, no headers
    whole = bytearray()
    append_varint(whole, len(fields))
    return bytes(whole + fields)


def stored(directory: Path, *batches: bytes) -> PartitionLog:
    log = open_at(directory, LogConfig())
    for each in batches:
        log.append(each, leader_epoch=3)
    return log


def test_the_records_of_a_large_batch_are_looked_at_a_few_at_a_time(tmp_path: Path) -> None:
    body = b"".join(record(index, index) for index in range(COUNT))
    large = packed(body, COUNT, max_timestamp=NOW_MS + COUNT - 1)
    assert len(body) > OPENED_AT_ONCE_BYTES_MAX
    log = stored(tmp_path, plain(b"v", timestamp=NOW_MS - 5), large)
    place = InPlace()
    steps = TimestampSearch(lambda: log, place).first(NOW_MS + COUNT - 2)
    taken: list[bool] = []
    found = through(steps, after_each=lambda: taken.append(place.is_acquired))
    assert found == TimestampOffset(COUNT - 1, NOW_MS + COUNT - 2, 3)
    assert len(taken) == 2 + (COUNT - 1) // RECORDS_AT_ONCE
    assert all(taken)
    assert not place.is_acquired
    assert max_timestamp_offset(log) == TimestampOffset(COUNT, NOW_MS + COUNT - 1, 3)


def test_a_search_that_waits_for_a_large_batch_holds_no_data(tmp_path: Path) -> None:
    """Many requests may wait: each would otherwise hold a batch of a megabyte for a request of sixty bytes."""
    body = b"".join(record(index, index) for index in range(COUNT))
    log = stored(tmp_path, packed(body, COUNT, max_timestamp=NOW_MS + COUNT - 1))
    asked: list[PartitionLog] = []

    def log_now() -> PartitionLog:
        asked.append(log)
        return log

    steps = TimestampSearch(log_now, InPlace()).first(NOW_MS + COUNT - 2)
    next(steps)
    before = len(asked)
    steps.send(None)
    assert len(asked) == before + 1, "the batch is read again"
    steps.close()


def test_a_cancelled_search_releases_the_large_batch_lock(tmp_path: Path) -> None:
    body = b"".join(record(index, index) for index in range(COUNT))
    log = stored(tmp_path, packed(body, COUNT, max_timestamp=NOW_MS + COUNT - 1))
    place = InPlace()
    steps = TimestampSearch(lambda: log, place).first(NOW_MS + COUNT - 2)
    next(steps)
    next(steps)
    assert place.is_acquired
    steps.close()
    assert not place.is_acquired


def test_a_timestamp_search_skips_a_batch_with_a_wrong_max_timestamp(tmp_path: Path) -> None:
    """A compressed batch is stored as it was sent: its records may be older than its header says."""
    liar = packed(record(0, 0), 1, max_timestamp=NOW_MS + 50)
    log = stored(tmp_path, liar, liar, plain(b"v", timestamp=NOW_MS + 20))
    assert offset_for_timestamp(log, NOW_MS + 10) == TimestampOffset(2, NOW_MS + 20, 3)
    assert offset_for_timestamp(log, NOW_MS + 30) is None
    assert max_timestamp_offset(log) is None, "no record has the largest timestamp"


@pytest.mark.parametrize(
    ("body", "count", "what"),
    [
        (record(0, 0)[:-4], 1, "longer than its batch"),
        (record(0, 0), 2, "declares 2 records and holds 1"),
        (b"\x02\x00", 1, "ends early"),
        (b"\x00", 1, "ends early"),
        (b"\x01", 1, "longer than its batch"),
        (b"\x02\x00\x00\x00", 1, "longer than its length"),
        (record(0, 2**31), 1, "longer than its length"),
        (b"\xff" * 11, 1, "ten bytes"),
    ],
)
def test_a_timestamp_search_reports_invalid_records(tmp_path: Path, body: bytes, count: int, what: str) -> None:
    log = stored(tmp_path, packed(body, count, max_timestamp=NOW_MS + 50))
    with pytest.raises(InvalidRecordsError, match=what):
        offset_for_timestamp(log, NOW_MS + 10)


def test_a_timestamp_search_looks_up_the_log_again_after_a_pause(tmp_path: Path) -> None:
    """Another log may have replaced this one meanwhile: a closed log must not be read."""
    liar = packed(record(0, 0), 1, max_timestamp=NOW_MS + 50)
    log = stored(tmp_path, liar, liar)
    asked = []

    def log_now() -> PartitionLog:
        asked.append(log)
        if len(asked) > 2:
            raise LookupError
        return log

    with pytest.raises(LookupError):
        through(TimestampSearch(log_now, InPlace()).first(NOW_MS + 10))


def test_a_timestamp_search_handles_create_time_and_log_append_time(tmp_path: Path) -> None:
    log = stored(tmp_path, plain(b"a", b"b", timestamp=NOW_MS), plain(b"c", timestamp=NOW_MS + 9))
    assert offset_for_timestamp(log, NOW_MS + 1) == TimestampOffset(2, NOW_MS + 9, 3)
    stamped = open_at(tmp_path / "stamped", LogConfig(message_timestamp_type="LogAppendTime"))
    stamped.append(packed(record(-700, 0), 1, max_timestamp=NOW_MS - 700), leader_epoch=3)
    assert offset_for_timestamp(stamped, 0) == TimestampOffset(0, NOW_MS, 3)


def test_batches_below_the_timestamp_are_skipped_a_few_at_a_time(tmp_path: Path) -> None:
    """The segment's largest timestamp may belong to a deleted record."""
    count = 3 * HEADERS_AT_ONCE
    old = (plain(b"v", timestamp=NOW_MS) for _ in range(count))
    log = stored(tmp_path, plain(b"newest", timestamp=NOW_MS + 90), *old, plain(b"v", timestamp=NOW_MS + 40))
    log.delete_records_before(1)
    turns: list[int] = []
    steps = TimestampSearch(lambda: log, InPlace()).first(NOW_MS + 30)
    found = through(steps, after_each=lambda: turns.append(1))
    assert found == TimestampOffset(count + 1, NOW_MS + 40, 3)
    assert len(turns) >= count // HEADERS_AT_ONCE
