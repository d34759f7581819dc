"""Compaction of segments that are large, damaged or empty, that begin inside the clean part, or on failing disks."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.compaction.candidates import dirtiest
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.plan import CleanedGroup
from kwire.log.compaction.round import run_round
from kwire.log.compaction.swap import Swap
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, DiskFullError
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.protocol.records import Record, encode_batch
from tests.log.compaction.support import MAP_BYTES, append, candidate_of, compact
from tests.log.faults import FaultyDisk, broken, full
from tests.log.searching import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, everything, headers, marker, open_at, surroundings, with_deltas

MIB = 1024 * 1024
CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, delete_retention_ms=1000)
LARGE = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, max_message_bytes=4 * MIB)


def survivors(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.key) for record in everything(log)]


def stored(log: PartitionLog) -> list[tuple[int, int]]:
    """Return (last offset, number of records) of each batch."""
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    return [(found.last_offset, found.record_count) for found in headers(data)]


# Large segments


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([300_000] * 12, id="batches across the ends of pieces"),
        pytest.param([10, 2 * MIB, 10, 3 * MIB, 10], id="batches larger than a piece"),
        pytest.param([2 * MIB], id="nothing left to write at the end"),
    ],
)
def test_batches_larger_than_a_read_chunk_are_compacted(tmp_path: Path, sizes: list[int]) -> None:
    log = open_at(tmp_path / "orders-0", LARGE)
    for index, size in enumerate(sizes):
        append(log, (b"again", b""), (b"%d" % index, os.urandom(8) + bytes(size)))
    before = {record.offset: record.value for record in everything(log)}
    log.roll()
    append(log, (b"active", b""))
    assert compact(log) is not None
    last = 2 * len(sizes) - 2
    expected = sorted([last, *range(1, 2 * len(sizes), 2)])
    found = {record.offset: record.value for record in everything(log) if record.key != b"active"}
    assert sorted(found) == expected
    assert found == {offset: before[offset] for offset in expected}


# Damaged segments


def closed_segment(tmp_path: Path) -> tuple[PartitionLog, Path]:
    """Return a log whose first segment has ten batches, and that segment's file."""
    log = open_at(tmp_path / "orders-0", CONFIG)
    for index in range(10):
        append(log, (b"%d" % (index % 3), b"x"))
    log.roll()
    append(log, (b"active", b""))
    log.flush()
    return log, Path(log.segments.first.file.path)


def cut_to_half_a_header(data: bytearray) -> bytearray:
    return data[:-40]


def lengthened(data: bytearray) -> bytearray:
    """Make the last batch extend beyond its segment's end."""
    struct.pack_into(">i", data, 9 * len(data) // 10 + 8, 1000)
    return data


def without_magic(data: bytearray) -> bytearray:
    data[3 * len(data) // 10 + 16] = 1
    return data


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut_to_half_a_header, "ends inside a batch header"),
        (lengthened, "ends behind its segment"),
        (without_magic, "no batch at position"),
    ],
)
def test_damage_ends_the_round_and_leaves_the_log_as_it_was(
    tmp_path: Path, harm: Callable[[bytearray], bytearray], message: str
) -> None:
    log, path = closed_segment(tmp_path)
    candidate = candidate_of(log)
    assert candidate is not None
    plan = candidate.plan(NOW_MS, MAP_BYTES)
    harmed = harm(bytearray(path.read_bytes()))
    path.write_bytes(harmed)
    disk = FaultyDisk()
    (source,) = plan.segments
    object.__setattr__(source, "size", len(harmed))
    with pytest.raises(CorruptLogError, match=message):
        list(run_round(disk, plan))
    assert path.read_bytes() == harmed
    assert not list(Path(log.directory).glob("*.swap"))


def test_a_log_with_unrebuildable_indexes_goes_offline_and_is_not_compacted(tmp_path: Path) -> None:
    log, path = closed_segment(tmp_path)
    end = log.log_end_offset
    log.close(clean=True)
    path.write_bytes(without_magic(bytearray(path.read_bytes())))
    path.with_suffix(".index").unlink()
    log = open_at(tmp_path / "orders-0", CONFIG, clean=True, recovery_point=end)
    assert dirtiest([log], lambda _: end, NOW_MS) is None
    assert isinstance(log.failure, CorruptLogError)


def test_a_log_on_a_failing_disk_goes_offline_and_is_not_compacted(tmp_path: Path) -> None:
    log, _ = closed_segment(tmp_path)
    end = log.log_end_offset
    log.close(clean=True)
    disk = FaultyDisk()
    log = open_at(tmp_path / "orders-0", CONFIG, surroundings(disk), clean=True, recovery_point=end)
    disk.fail = lambda operation, path: broken(operation, path) if operation == "read" else None
    assert dirtiest([log], lambda _: end, NOW_MS) is None
    assert isinstance(log.failure, DiskFailure)


# Empty segments, as Apache Kafka's compaction leaves them


def with_empty_segment(tmp_path: Path, base_offset: int, next_base_offset: int) -> PartitionLog:
    """Return a log with an empty segment: compaction has removed all its records."""
    log = open_at(tmp_path / "orders-0", CONFIG)
    for index in range(base_offset):
        append(log, (b"%d" % (index % 3), b"x"))
    log.close(clean=True)
    for offset in (base_offset, next_base_offset):
        (tmp_path / "orders-0" / f"{offset:020d}.log").touch()
    return open_at(tmp_path / "orders-0", CONFIG, clean=True, recovery_point=next_base_offset)


def test_a_log_of_empty_segments_is_not_a_compaction_candidate(tmp_path: Path) -> None:
    log = with_empty_segment(tmp_path, 0, 5)
    append(log, (b"a", b"1"))
    assert candidate_of(log) is None
    assert log.failure is None


def test_empty_segments_are_passed_over(tmp_path: Path) -> None:
    log = with_empty_segment(tmp_path, 6, 10)
    log.update_config(LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, segment_bytes=1))
    end = compact(log)
    assert end is not None
    assert end.end_offset == 10
    assert survivors(log) == [(3, b"0"), (4, b"1"), (5, b"2")]
    assert [segment.base_offset for segment in log.segments] == [0, 6, 10]


# A dirty part that begins inside a batch


def test_records_below_the_log_start_do_not_replace_later_values_of_their_keys(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"0"), (b"b", b"1"), (b"a", b"2"), (b"c", b"3"))
    append(log, (b"b", b"4"), (b"d", b"5"))
    log.roll()
    log.delete_records_before(2)
    end = compact(log)
    assert end is not None
    assert end.keys == 4
    assert survivors(log) == [(2, b"a"), (3, b"c"), (4, b"b"), (5, b"d")]


def test_a_compacted_batch_may_end_before_the_first_dirty_offset(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"0"), (b"b", b"1"), (b"c", b"2"))
    append(log, (b"b", b"3"), (b"c", b"4"))
    log.roll()
    append(log, (b"e", b"5"))
    assert compact(log) is not None
    assert stored(log)[0] == (2, 1)
    log.offsets.first_dirty = 1
    log.roll()
    end = compact(log)
    assert end is not None
    assert end.keys == 3
    assert survivors(log) == [(0, b"a"), (3, b"b"), (4, b"c"), (5, b"e")]


def test_putting_no_records_leaves_the_offset_map_empty() -> None:
    offset_map = OffsetMap(1000)
    offset_map.put([], [])
    assert (offset_map.offsets, offset_map.used_bytes, offset_map.is_full) == ({}, 0, False)


# Producers


def test_compaction_removes_the_last_batch_of_an_expired_producer(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"1"), producer_id=7, sequence=0)
    append(log, (b"a", b"2"))
    append(log, (b"b", b"1"))
    log.roll()
    assert log.producers.expire(NOW_MS + 10_000, 1000) == 1
    compact(log)
    assert stored(log) == [(1, 1), (2, 1)]


def test_a_producer_of_which_only_a_marker_is_left_keeps_it_as_an_empty_batch(tmp_path: Path) -> None:
    """The marker's epoch is newer than the transaction's (KIP-890), so no data batch is the producer's last one."""
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"1"), producer_id=7, sequence=0, transactional=True)
    log.append(marker(7, 1, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=2)
    append(log, (b"b", b"1"))
    log.roll()
    for number in range(4):
        append(log, (b"c%d" % number, b"1"))
        log.roll()
        log.offsets.first_dirty = 0
        assert compact(log, now_ms=NOW_MS + 2000 * number) is not None
    assert stored(log)[:2] == [(1, 0), (2, 1)]
    log.close(clean=False)
    again = open_at(tmp_path / "orders-0", CONFIG)
    assert again.producers.entries == {}  # Apache Kafka does not restore a producer from an empty control batch either


def test_a_control_batch_of_another_kind_stays(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    other = encode_batch(
        [Record(key=b"\x00\x00\x00\x02", value=b"", timestamp=NOW_MS)], control=True, partition_leader_epoch=0
    )
    log.append(other, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    append(log, (b"a", b"1"))
    log.roll()
    for number in range(3):
        log.offsets.first_dirty = 0
        compact(log, now_ms=NOW_MS + 2000 * number)
    assert stored(log) == [(0, 1), (1, 1)]


def test_a_thinned_batch_of_log_append_time_keeps_its_time(tmp_path: Path) -> None:
    stamped = LogConfig(
        cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, message_timestamp_type="LogAppendTime"
    )
    log = open_at(tmp_path / "orders-0", stamped)
    append(log, (b"a", b"1"), (b"b", b"1"), timestamp=NOW_MS - 1000)
    append(log, (b"a", b"2"), timestamp=NOW_MS - 1000)
    log.roll()
    compact(log)
    assert [(record.offset, record.timestamp) for record in everything(log)] == [(1, NOW_MS), (2, NOW_MS)]


@pytest.mark.parametrize("value", [b"1", None])
def test_timestamps_that_leave_64_bits_are_compacted_like_others(tmp_path: Path, value: bytes | None) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    batch = with_deltas((0, b"a", value), (2**63 - 1, b"b", value), (5, b"c", value))
    log.append(batch, leader_epoch=0, origin=AppendOrigin.REPLICATION)  # as stored before the topic became compacted
    append(log, (b"a", b"2"))
    log.roll()
    compact(log)
    wrapped = NOW_MS + 2**63 - 1 - 2**64
    assert [(record.offset, record.timestamp) for record in everything(log)] == [
        (1, wrapped),
        (2, NOW_MS + 5),
        (3, NOW_MS),
    ]
    assert headers(log.read(0, 1000))[0].max_timestamp == NOW_MS + 5


def test_the_largest_timestamp_may_be_that_of_a_batch_without_records(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"1"), timestamp=NOW_MS + 50, producer_id=7, sequence=0)
    append(log, (b"a", b"2"), (b"b", b"1"))
    log.roll()
    compact(log)
    assert stored(log)[0] == (0, 0)
    assert max_timestamp_offset(log) is None
    found = offset_for_timestamp(log, NOW_MS)
    assert found is not None
    assert found.offset == 1


# Disks


def test_a_round_without_disk_space_for_an_index_leaves_the_log_unchanged(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_at(tmp_path / "orders-0", LogConfig(cleanup_policy=("compact",), index_interval_bytes=0))
    for index in range(10):
        append(log, (b"%d" % (index % 3), b"x"))
    log.roll()
    candidate = candidate_of(log)
    assert candidate is not None
    before = survivors(log)
    disk.fail = lambda operation, path: (
        full(operation, path) if operation == "append" and path.endswith(".index.cleaned") else None
    )
    with pytest.raises(DiskFullError, match="indexes could not be written"):
        list(run_round(disk, candidate.plan(NOW_MS, MAP_BYTES)))
    disk.fail = lambda operation, path: None
    assert survivors(log) == before
    assert compact(log, disk) is not None
    assert len(survivors(log)) == 3


def test_a_swap_that_finds_no_space_for_its_last_names_takes_the_log_offline(tmp_path: Path) -> None:
    """The source segments are already removed, so the log cannot be restored without a restart."""
    disk = FaultyDisk()
    log, _ = closed_segment(tmp_path)
    candidate = candidate_of(log)
    assert candidate is not None
    group = next(
        report for report in run_round(disk, candidate.plan(NOW_MS, MAP_BYTES)) if isinstance(report, CleanedGroup)
    )
    before = survivors(log)
    swap = Swap(log, disk, group, log.offsets.truncations)
    swap.decide()
    swap.sync()
    swap.replace(NOW_MS)
    swap.sync()
    disk.fail = lambda operation, path: full(operation, path) if operation == "rename" else None
    with pytest.raises(DiskFailure) as caught:
        swap.drop_suffix()
    assert not isinstance(caught.value, DiskFullError)
    log.close(clean=False)
    again = open_at(tmp_path / "orders-0", CONFIG)
    assert survivors(again) == [pair for pair in before if pair[0] >= 7]
