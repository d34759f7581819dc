"""Compaction round: the records that it keeps and drops, case by case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kwire.log.batch_validation import AppendOrigin
from kwire.log.compaction.candidates import dirtiest
from kwire.log.config import LogConfig
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.log.scrubbing import one_pass
from kwire.protocol.compression import Codec
from kwire.protocol.records import BatchHeader, Record, encode_batch
from tests.log.compaction.support import append, candidate_of, compact, keyed
from tests.log.searching import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, everything, headers, marker, open_at

CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, delete_retention_ms=1000)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_at(tmp_path / "orders-0", CONFIG)


def survivors(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in everything(log)]


def stored(log: PartitionLog) -> list[BatchHeader]:
    return headers(b"".join(segment.file.read(0, segment.size) for segment in log.segments))


def end_transaction(log: PartitionLog, *, commit: bool) -> None:
    log.append(marker(7, 0, commit=commit), leader_epoch=0, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_value_of_each_key_stays_at_its_offset(log: PartitionLog, codec: Codec) -> None:
    append(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), codec=codec)
    append(log, (b"a", b"2"), (b"c", b"2"), codec=codec)
    log.roll()
    append(log, (b"b", b"active"))
    end = compact(log)
    assert end is not None
    assert (end.end_offset, end.records_read, end.records_written) == (5, 5, 3)
    assert survivors(log) == [(1, b"b", b"1"), (3, b"a", b"2"), (4, b"c", b"2"), (5, b"b", b"active")]
    assert [(found.base_offset, found.last_offset, found.codec) for found in stored(log)][:2] == [
        (0, 2, codec),
        (3, 4, codec),
    ]


def test_a_compacted_batch_has_the_largest_timestamp_of_its_remaining_records(log: PartitionLog) -> None:
    append(log, (b"a", b"1"), (b"b", b"1"))
    append(log, (b"b", b"2"))
    log.roll()
    compact(log)
    assert [(record.key, record.timestamp) for record in everything(log)] == [(b"a", NOW_MS), (b"b", NOW_MS)]
    assert stored(log)[0].max_timestamp == NOW_MS


def test_records_built_alike_and_records_that_differ_are_thinned_alike(log: PartitionLog) -> None:
    alike = [(b"key%03d" % (index % 50), b"x" * 20) for index in range(300)]
    mixed = [(b"k" * (index % 9 + 1), b"v" * (index * 7 % 200)) for index in range(300)]
    append(log, *alike)
    append(log, *mixed)
    log.roll()
    compact(log)
    expected = {key: offset for offset, (key, _) in enumerate([*alike, *mixed])}
    assert {key: offset for offset, key, _ in survivors(log)} == expected


@pytest.mark.parametrize("timestamp", [NOW_MS, -1, NOW_MS + 1 - 2**63])
def test_a_tombstone_may_stay_for_ever_whatever_its_timestamp(tmp_path: Path, timestamp: int) -> None:
    log = open_at(tmp_path / "orders-0", replace(CONFIG, delete_retention_ms=2**63 - 1))
    log.append(encode_batch([Record(key=b"a", value=None, timestamp=timestamp)]), leader_epoch=0)
    append(log, (b"b", b"1"))
    log.roll()
    compact(log)
    assert stored(log)[0].base_timestamp == 2**63 - 1
    assert everything(log)[0].timestamp == timestamp
    log.roll()
    compact(log, now_ms=2**62)
    assert (0, b"a", None) in survivors(log)


def test_a_tombstone_stays_until_its_horizon_and_takes_the_value_at_once(log: PartitionLog) -> None:
    append(log, (b"a", b"1"), (b"b", b"1"))
    append(log, (b"a", None), (b"c", b"1"))
    log.roll()
    compact(log)
    assert survivors(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    horizon = stored(log)[1]
    assert horizon.has_delete_horizon
    assert horizon.base_timestamp == NOW_MS + 1000
    assert [record.timestamp for record in everything(log)] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]
    append(log, (b"d", b"1"))
    log.roll()
    compact(log, now_ms=NOW_MS + 999)
    assert (2, b"a", None) in survivors(log)
    append(log, (b"e", b"1"))
    log.roll()
    compact(log, now_ms=NOW_MS + 1000)
    assert [key for _, key, _ in survivors(log)] == [b"b", b"c", b"d", b"e"]


def test_compaction_removes_records_without_a_key(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", LogConfig())
    append(log, (None, b"1"), (b"a", b"1"))
    log.update_config(CONFIG)
    log.roll()
    end = compact(log)
    assert end is not None
    assert end.keyless_records == 1
    assert survivors(log) == [(1, b"a", b"1")]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(log: PartitionLog) -> None:
    append(log, (b"a", b"1"), producer_id=7, sequence=0)
    append(log, (b"a", b"2"), producer_id=7, sequence=1)
    append(log, (b"a", b"3"))
    append(log, (b"b", b"1"))
    log.roll()
    compact(log)
    empty, *_ = stored(log)
    assert (empty.record_count, empty.base_offset, empty.producer_id, empty.base_sequence) == (0, 1, 7, 1)
    log.close(clean=False)
    again = open_at(Path(log.directory), CONFIG)
    assert again.producers.entries[7].last_sequence == 1
    assert survivors(again) == [(2, b"a", b"3"), (3, b"b", b"1")]


def test_aborted_records_go_and_markers_outlive_them(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    append(log, (b"a", b"aborted"), producer_id=7, sequence=0, transactional=True)
    end_transaction(log, commit=False)
    append(log, (b"b", b"committed"), producer_id=7, sequence=1, transactional=True)
    end_transaction(log, commit=True)
    append(log, (b"b", b"later"))
    append(log, (b"z", b"1"), producer_id=7, sequence=2)
    log.roll()
    compact(log)
    assert [found.base_offset for found in stored(log) if found.is_control] == [2, 4]
    assert not any(found.has_delete_horizon for found in stored(log))
    assert [found.last_offset for found in log.aborted_transactions(0, 10)] == [2]
    assert [pair for pair in survivors(log) if pair[0] not in (2, 4)] == [
        (0, b"a", b"1"),
        (5, b"b", b"later"),
        (6, b"z", b"1"),
    ]
    append(log, (b"y", b"1"))
    log.roll()
    compact(log)
    assert [found.has_delete_horizon for found in stored(log) if found.is_control] == [True, True]
    assert log.aborted_transactions(0, 10) == []
    append(log, (b"x", b"1"))
    log.roll()
    compact(log, now_ms=NOW_MS + 1000)
    assert not any(found.is_control for found in stored(log))


def test_segments_are_joined_up_to_the_size_of_one(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    size = len(keyed((b"0", b"x")))
    log.update_config(LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, segment_bytes=2 * size))
    for index in range(12):
        append(log, (b"%d" % (index % 4), b"x"))
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8, 10]
    assert [offset for offset, _, _ in survivors(log)] == [6, 7, 8, 9, 10, 11]
    append(log, (b"0", b"x"), (b"1", b"x"))
    log.offsets.first_dirty = 0
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 6, 8, 10, 12]
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == [
        f"{offset:020d}.log" for offset in (0, 4, 6, 8, 10, 12)
    ]


def test_a_full_offset_map_ends_a_round_and_the_next_round_continues(log: PartitionLog) -> None:
    for index in range(40):
        append(log, (b"%d" % (index % 20), b"x"))
    log.roll()
    ends = []
    while (end := compact(log, map_bytes=1000)) is not None:
        ends.append(end.end_offset)
    assert len(ends) > 2
    assert ends == sorted(set(ends))
    assert ends[-1] == 40
    assert [offset for offset, _, _ in survivors(log)] == list(range(20, 40))


def test_the_active_segment_undecided_and_young_records_are_left_alone(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", CONFIG)
    append(log, (b"a", b"1"))
    assert candidate_of(log) is None
    log.roll()
    append(log, (b"a", b"2"), producer_id=7, sequence=0, transactional=True)
    log.roll()
    append(log, (b"a", b"3"))
    log.roll()
    found = candidate_of(log)
    assert found is not None
    assert (found.first_dirty_offset, found.upper_bound_offset) == (0, 1)
    end_transaction(log, commit=True)
    decided = candidate_of(log)
    assert decided is not None
    assert decided.upper_bound_offset == 3
    lag = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=500)
    log.update_config(lag)
    assert candidate_of(log, NOW_MS + 400) is None
    assert candidate_of(log, NOW_MS + 501) is not None


def test_the_dirty_share_decides_unless_a_record_waited_too_long(log: PartitionLog) -> None:
    append(log, *[(b"%d" % index, b"x" * 50) for index in range(100)])
    log.roll()
    compact(log)
    append(log, (b"a", b"1"))
    log.roll()
    half = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1000)
    log.update_config(half)
    assert candidate_of(log, NOW_MS + 1000) is None
    overdue = candidate_of(log, NOW_MS + 1001)
    assert overdue is not None
    assert overdue.is_overdue


def test_a_first_dirty_offset_above_the_log_end_is_ignored(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    log.roll()
    log.offsets.first_dirty = 99
    found = candidate_of(log)
    assert found is not None
    assert found.first_dirty_offset == 0


def test_truncation_makes_what_follows_dirty_again(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    append(log, (b"b", b"1"))
    log.roll()
    compact(log)
    assert log.offsets.first_dirty == 2
    log.truncate_to(1)
    assert log.offsets.first_dirty == 0, "from the segment on that was cut"
    log.truncate_fully_and_start_at(5)
    assert log.offsets.first_dirty == 0


def test_a_flipped_bit_ends_the_round_and_leaves_the_log_as_it_was(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    log.roll()
    log.flush()
    path = Path(log.segments.first.file.path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match="fails its CRC"):
        compact(log)
    assert path.read_bytes() == data
    assert not list(Path(log.directory).glob("*.swap"))


def test_time_and_offset_look_ups_work_on_what_is_left(log: PartitionLog) -> None:
    for index in range(200):
        append(log, (b"%d" % (index % 10), b"x" * 100), timestamp=NOW_MS + index)
    log.roll()
    compact(log)
    found = offset_for_timestamp(log, NOW_MS)
    assert found is not None
    assert found.offset == 190
    assert offset_for_timestamp(log, NOW_MS + 500) is None
    latest = max_timestamp_offset(log)
    assert latest is not None
    assert latest.offset == 199


def test_a_segment_is_closed_when_compaction_may_not_wait_any_longer(tmp_path: Path) -> None:
    log = open_at(tmp_path / "orders-0", LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=1000))
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"), timestamp=NOW_MS + 1001)
    assert len(log.segments) == 2
    assert LogConfig(max_compaction_lag_ms=1000).roll_ms == LogConfig().segment_ms


def test_a_scrub_goes_on_after_the_segment_below_it_was_compacted(log: PartitionLog) -> None:
    for index in range(100):
        append(log, (b"%d" % (index % 7), b"x" * 5000))
    log.roll()
    steps = one_pass([log], lambda _: True)
    next(steps)
    next(steps)
    compact(log)
    assert sum(steps) == log.segments.first.size
    assert log.failure is None


def test_an_aborted_transaction_of_the_clean_part_does_not_abort_a_later_one(log: PartitionLog) -> None:
    append(log, (b"a", b"aborted"), producer_id=7, sequence=0, transactional=True)
    end_transaction(log, commit=False)
    log.roll()
    compact(log)
    assert log.aborted_transactions(0, 10)
    append(log, (b"k", b"1"))
    append(log, (b"k", b"2"), producer_id=7, sequence=1, transactional=True)
    end_transaction(log, commit=True)
    log.roll()
    compact(log)
    assert [(offset, value) for offset, key, value in survivors(log) if key == b"k"] == [(3, b"2")]


def test_leftover_files_of_an_earlier_round_are_removed_first(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    log.roll()
    left = Path(log.directory) / f"{5:020d}.log.cleaned"
    left.write_bytes(b"half")
    compact(log)
    assert not left.exists()


def test_compaction_does_not_go_beyond_the_recovery_point(log: PartitionLog) -> None:
    append(log, (b"a", b"1"))
    log.roll()
    log.flush()
    append(log, (b"a", b"2"))
    log.roll()
    found = dirtiest([log], lambda found: found.log_end_offset, NOW_MS)
    assert found is not None
    assert found.upper_bound_offset == 1


def test_snapshots_go_with_their_segments(log: PartitionLog) -> None:
    for index in range(3):
        append(log, (b"a", b"%d" % index), producer_id=7, sequence=index)
        log.roll()
    compact(log)
    assert log.snapshots.offsets == [3]
    assert [path.name for path in Path(log.directory).glob("*.snapshot")] == [f"{3:020d}.snapshot"]
