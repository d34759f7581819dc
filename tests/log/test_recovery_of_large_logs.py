"""Recovery of logs that exceed the read size of a scan, and of batches that no broker writes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kwire.log import recovery
from kwire.log.batch_order import RELATIVE_OFFSET_MAX
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.scanning import SCAN_CHUNK_BYTES
from kwire.protocol.records import Record, encode_batch
from tests.log.support import NOW_MS, batch, headers, open_at, values
from tests.support.compiled import replaces_methods

LARGE = LogConfig(max_message_bytes=4 * SCAN_CHUNK_BYTES)
FIRST = "00000000000000000000.log"


def sized(number: int, size: int) -> bytes:
    return b"%d " % number + bytes(size)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([400_000] * 7, id="batches across the ends of pieces"),
        pytest.param([10, 2 * SCAN_CHUNK_BYTES, 10, 3 * SCAN_CHUNK_BYTES], id="batches larger than a piece"),
        pytest.param([SCAN_CHUNK_BYTES - 61 - 30, 100, 100], id="a header across the end of a piece"),
    ],
)
def test_batches_are_recovered_wherever_the_pieces_of_a_scan_end(tmp_path: Path, sizes: list[int]) -> None:
    log = open_at(tmp_path, LARGE)
    for number, size in enumerate(sizes):
        log.append(batch(sized(number, size)), leader_epoch=0)
    log.close(clean=False)
    whole = (tmp_path / FIRST).read_bytes()
    again = open_at(tmp_path, LARGE)
    assert values(again) == [sized(number, size) for number, size in enumerate(sizes)]
    again.close(clean=False)
    (tmp_path / FIRST).write_bytes(whole[:-1])
    torn = open_at(tmp_path, LARGE)
    assert values(torn) == [sized(number, size) for number, size in enumerate(sizes[:-1])]


@replaces_methods
def test_a_large_segment_is_logged_before_its_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery, "LARGE_SEGMENT_BYTES", 1000)
    log = open_at(tmp_path, LogConfig(segment_bytes=2000))
    for number in range(5):
        log.append(batch(sized(number, 900)), leader_epoch=0)
    log.close(clean=False)
    caplog.set_level(logging.INFO)
    assert len(values(open_at(tmp_path, LogConfig(segment_bytes=2000)))) == 5
    reported = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Recovering")]
    assert [line.partition(", ")[2] for line in reported] == [
        "0 MiB, segment 1 of 3 of orders-0 past the recovery point",
        "0 MiB, segment 2 of 3 of orders-0 past the recovery point",
    ]


def stored(directory: Path, *batches: bytes | bytearray) -> PartitionLog:
    """Return a log whose file contains these batches, opened as after a crash."""
    directory.mkdir(exist_ok=True)
    (directory / FIRST).write_bytes(b"".join(batches))
    return open_at(directory)


def at(base_offset: int, value: bytes) -> bytearray:
    return encode_batch(
        [Record(key=b"k", value=value, timestamp=NOW_MS)], base_offset=base_offset, partition_leader_epoch=0
    )


def control(base_offset: int, key: bytes | None) -> bytearray:
    """Return a control batch of producer 7."""
    return encode_batch(
        [Record(key=key, value=b"", timestamp=NOW_MS)],
        base_offset=base_offset,
        partition_leader_epoch=0,
        control=True,
        transactional=True,
        producer_id=7,
        producer_epoch=0,
    )


def test_a_batch_that_is_too_far_from_the_segments_start_ends_the_log(tmp_path: Path) -> None:
    """The offset does not fit into an index entry."""
    log = stored(tmp_path / "t-0", at(0, b"a"), at(RELATIVE_OFFSET_MAX, b"b"), at(RELATIVE_OFFSET_MAX + 1, b"c"))
    assert (log.log_end_offset, values(log)) == (RELATIVE_OFFSET_MAX + 1, [b"a", b"b"])


@pytest.mark.parametrize("key", [None, b"\x00", b"\xff\xff\x00\x01"])
def test_a_control_batch_that_cannot_be_read_ends_the_log(tmp_path: Path, key: bytes | None) -> None:
    log = stored(tmp_path / "t-0", at(0, b"a"), control(1, key), at(2, b"b"))
    assert (log.log_end_offset, values(log)) == (1, [b"a"])
    assert log.producers.entries == {}


def test_an_unknown_control_batch_is_kept_and_does_not_change_producer_state(tmp_path: Path) -> None:
    """A later release may write such a batch; it ends no transaction."""
    log = open_at(tmp_path / "t-0")
    log.append(batch(b"open", producer_id=7, producer_epoch=0, sequence=0, transactional=True), leader_epoch=0)
    unknown = b"\x00\x00\x00\x63"
    log.append(control(1, unknown), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.append(control(0, unknown), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    for _ in range(2):
        assert log.log_end_offset == 3
        assert log.last_stable_offset(3) == 0
        assert log.producers.entries[7].last_data_offset == 0
        log.close(clean=False)
        log = open_at(tmp_path / "t-0")


@pytest.mark.parametrize("start", [3, RELATIVE_OFFSET_MAX + 7])
def test_an_empty_log_takes_a_leaders_first_batch_at_any_offset(tmp_path: Path, start: int) -> None:
    """The leader's compaction may have removed lower offsets; if the gap is too large, a new segment must begin."""
    log = open_at(tmp_path / "t-0")
    log.append(at(start, b"a"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.append(at(start + 1, b"b"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    for _ in range(2):
        assert log.log_end_offset == start + 2
        assert [found.base_offset for found in headers(log.read(start, 1000))] == [start, start + 1]
        assert len(list((tmp_path / "t-0").glob("*.log"))) == 1
        log.flush()
        log.close(clean=False)
        log = open_at(tmp_path / "t-0")
