"""Partition log: append, roll, read and truncate, with one log at a time."""

from __future__ import annotations

import pytest

from kwire.log.append_result import AppendResult
from kwire.log.batch_validation import AppendOrigin
from kwire.log.config import LogConfig
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.records import Record, crc_matches, encode_batch, parse_header
from tests.log.faults import FaultyDisk
from tests.log.support import NOW_MS, ManualClock, batch, everything, headers, open_at, surroundings, values

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def replicated(base_offset: int, *contents: bytes, epoch: int = 0) -> bytearray:
    return encode_batch(
        [Record(value=value, timestamp=NOW_MS) for value in contents],
        base_offset=base_offset,
        partition_leader_epoch=epoch,
    )


def outcome(result: AppendResult) -> tuple[int, int, int, int, bool]:
    return (
        result.base_offset,
        result.last_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        result.is_duplicate,
    )


def test_appends_get_consecutive_offsets(tmp_path):
    log = open_at(tmp_path)
    assert outcome(log.append(batch(b"a", b"b"), leader_epoch=3)) == (0, 1, -1, 0, False)
    assert outcome(log.append(batch(b"c"), leader_epoch=3)) == (2, 2, -1, 0, False)
    assert log.log_end_offset == 3
    data = log.read(0, 10_000)
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers(data)] == [(0, 3), (2, 3)]
    assert values(log) == [b"a", b"b", b"c"]


def test_a_read_only_buffer_is_copied(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a"), leader_epoch=0)
    sent = bytes(batch(b"b"))
    assert log.append(memoryview(sent), leader_epoch=0).base_offset == 1
    assert parse_header(sent).base_offset == 0


def test_log_append_time_is_reported(tmp_path):
    log = open_at(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    assert log.append(batch(timestamp=7), leader_epoch=0).log_append_time_ms == NOW_MS
    assert everything(log)[0].timestamp == NOW_MS


def test_a_rejected_batch_is_not_stored(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a"), leader_epoch=0)
    size = log.size_in_bytes
    damaged = batch(b"b")
    damaged[-2] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append(damaged, leader_epoch=0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.size_in_bytes) == (1, size)


def test_a_batch_larger_than_a_segment_is_rejected(tmp_path):
    log = open_at(tmp_path, SMALL)
    with pytest.raises(KafkaError) as caught:
        log.append(batch(b"x" * 600), leader_epoch=0)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_replicated_batches_keep_their_offsets_and_epochs(tmp_path):
    log = open_at(tmp_path)
    result = log.append(
        replicated(10, b"a", b"b", epoch=4) + replicated(12, b"c", epoch=6),
        leader_epoch=7,
        origin=AppendOrigin.REPLICATION,
    )
    assert (result.base_offset, result.last_offset) == (10, 12)
    assert [record.offset for record in everything(log)] == [10, 11, 12]
    assert log.leader_epochs.entries() == [(4, 10), (6, 12)]


def test_a_partial_batch_at_the_end_of_replicated_data_is_left_out(tmp_path):
    log = open_at(tmp_path)
    data = replicated(0, b"a") + replicated(1, b"b")[:50]
    assert log.append(data, leader_epoch=0, origin=AppendOrigin.REPLICATION).last_offset == 0
    assert log.append(bytearray(b"short"), leader_epoch=0, origin=AppendOrigin.REPLICATION).last_offset == 0
    assert log.log_end_offset == 1


def test_replicated_batches_must_follow_the_log(tmp_path):
    log = open_at(tmp_path)
    log.append(replicated(0, b"a", b"b"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    with pytest.raises(KafkaError):
        log.append(replicated(1, b"x"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    with pytest.raises(KafkaError):
        log.append(replicated(2, b"x") + replicated(2, b"y"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    damaged = replicated(2, b"x")
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append(damaged, leader_epoch=0, origin=AppendOrigin.REPLICATION)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 2


def test_a_raft_leader_must_write_its_own_epoch(tmp_path):
    log = open_at(tmp_path)
    with pytest.raises(KafkaError):
        log.append(replicated(0, b"a", epoch=1), leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)
    log.append(replicated(0, b"a", epoch=2), leader_epoch=2, origin=AppendOrigin.RAFT_LEADER)
    assert log.leader_epochs.epoch_of(0) == 2


# Reading


def test_reading_inside_a_batch_returns_the_whole_batch(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
    log.append(batch(b"d"), leader_epoch=0)
    assert [header.base_offset for header in headers(log.read(2, 10_000))] == [0, 3]


def test_max_bytes_cuts_at_whole_batches_but_may_give_the_first(tmp_path):
    log = open_at(tmp_path, LogConfig(index_interval_bytes=200))
    for _ in range(50):
        log.append(batch(b"x" * 30), leader_epoch=0)
    size = len(batch(b"x" * 30))
    for count in (1, 2, 7, 30):
        for slack in (0, 1, size - 1):
            assert len(log.read(5, count * size + slack)) == count * size
    assert len(log.read(5, size - 1)) == size
    assert log.read(5, size - 1, min_one_batch=False) == b""
    assert len(log.read(45, 10**6)) == 5 * size


@pytest.mark.parametrize("max_bytes", [100, 10_000])
def test_a_read_does_not_go_beyond_its_limit_offset(tmp_path, max_bytes):
    log = open_at(tmp_path, SMALL)
    for index in range(20):
        log.append(batch(b"%d" % index, b"."), leader_epoch=0)
    for limit in range(0, 41, 2):
        offset, found = 0, []
        while data := log.read(offset, max_bytes, limit_offset=limit):
            found += [header.base_offset for header in headers(data)]
            offset = headers(data)[-1].next_offset
        assert found == list(range(0, limit, 2))


@pytest.mark.parametrize("offset", [-1, 4])
def test_offsets_outside_the_log_are_out_of_range(tmp_path, offset):
    log = open_at(tmp_path)
    log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
    assert log.read(3, 100) == b""
    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_flipped_bit_on_disk_is_never_served(tmp_path):
    log = open_at(tmp_path)
    for index in range(10):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.close(clean=True)
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[4 * size + 65] ^= 0x10
    path.write_bytes(data)
    log = open_at(tmp_path, clean=True)
    assert len(log.read(0, 4 * size)) == 4 * size
    with pytest.raises(KafkaError) as caught:
        log.read(0, 5 * size)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="offline"):  # the whole replica, until it is repaired
        log.read(5, 10_000)
    log = open_at(tmp_path, clean=True)
    assert [header.base_offset for header in headers(log.read(5, 10_000))] == [5, 6, 7, 8, 9]


# Rolling


def test_a_full_segment_is_closed(tmp_path):
    log = open_at(tmp_path, SMALL)
    for _ in range(20):
        log.append(batch(b"x" * 100), leader_epoch=0)
    assert len(log.segments) > 3
    assert all(segment.size <= 500 for segment in log.segments)
    assert [record.offset for record in everything(log)] == list(range(20))
    names = {path.name for path in tmp_path.iterdir()}
    first, second = log.segments[0], log.segments[1]
    assert f"{second.base_offset:020d}.snapshot" in names
    assert {f"{first.base_offset:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} <= names


def test_segment_ms_counts_in_record_time(tmp_path):
    log = open_at(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(timestamp=NOW_MS - 5000), leader_epoch=0)
    log.append(batch(timestamp=NOW_MS - 4000), leader_epoch=0)
    assert len(log.segments) == 1
    log.append(batch(timestamp=NOW_MS - 3999), leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segment_ms_counts_in_wall_time_without_timestamps(tmp_path):
    clock = ManualClock()
    log = open_at(tmp_path, LogConfig(segment_ms=1000), surroundings(clock=clock))
    log.append(batch(timestamp=-1), leader_epoch=0)
    clock.now_ms += 1000
    log.append(batch(timestamp=-1), leader_epoch=0)
    assert len(log.segments) == 1
    clock.now_ms += 1
    log.append(batch(timestamp=-1), leader_epoch=0)
    assert len(log.segments) == 2


def test_jitter_shortens_segment_ms(tmp_path):
    log = open_at(tmp_path, LogConfig(segment_ms=1000, segment_jitter_ms=400))
    log.append(batch(timestamp=NOW_MS), leader_epoch=0)
    log.roll()
    log.append(batch(timestamp=NOW_MS), leader_epoch=0)
    log.append(batch(timestamp=NOW_MS + 601), leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_a_full_index_closes_the_segment(tmp_path):
    log = open_at(tmp_path, LogConfig(segment_index_bytes=48, index_interval_bytes=0))
    for index in range(10):
        log.append(batch(timestamp=NOW_MS + index), leader_epoch=0)
    assert len(log.segments) > 1
    assert all(len(segment.time_index) <= 4 for segment in log.segments)


def test_offsets_that_are_too_far_from_the_base_begin_a_segment(tmp_path):
    log = open_at(tmp_path)
    log.append(replicated(0, b"a"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.append(replicated(2**31, b"b"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.append(replicated(2**32 + 1, b"c"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2**32 + 1]
    assert [header.base_offset for header in headers(log.read(1, 1000))] == [2**31]


# Truncation


@pytest.mark.parametrize("offset", range(0, 31, 3))
def test_truncation_leaves_a_prefix_that_grows_on(tmp_path, offset):
    log = open_at(tmp_path, SMALL)
    for index in range(30):
        log.append(batch(b"%d" % index), leader_epoch=index // 10)
    log.truncate_to(offset)
    assert values(log) == [b"%d" % index for index in range(offset)]
    assert log.leader_epochs.entries() == [(epoch, epoch * 10) for epoch in range(3) if epoch * 10 < offset]
    assert log.append(batch(b"new"), leader_epoch=5).base_offset == offset
    log.close(clean=False)
    assert values(open_at(tmp_path, SMALL)) == [*(b"%d" % index for index in range(offset)), b"new"]


def test_truncation_removes_the_whole_batch_that_holds_the_offset(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a"), leader_epoch=0)
    log.append(batch(b"b", b"c", b"d"), leader_epoch=0)
    log.truncate_to(2)
    assert log.log_end_offset == 1


def test_the_recovery_point_is_lowered_durably_before_files_are_cut(tmp_path):
    log = open_at(tmp_path, SMALL)
    for index in range(30):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.flush()
    seen: list[tuple[int, int]] = []
    log.before_truncation = lambda _: seen.append((log.recovery_point, len(log.segments)))
    segments = len(log.segments)
    log.truncate_to(4)
    assert seen == [(4, segments)]


def test_truncating_below_the_first_segment_moves_the_log_start(tmp_path):
    log = open_at(tmp_path)
    log.append(replicated(50, b"a"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    log.truncate_fully_and_start_at(70)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (70, 70, 70)
    assert log.leader_epochs.entries() == []
    assert log.append(batch(), leader_epoch=1).base_offset == 70
    log.truncate_to(10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_deleting_records_moves_the_start(tmp_path):
    log = open_at(tmp_path, SMALL)
    for index in range(10):
        log.append(batch(b"%d" % index), leader_epoch=index)
    log.delete_records_before(4)
    assert log.log_start_offset == 4
    assert log.leader_epochs.entries()[0] == (4, 4)
    with pytest.raises(KafkaError):
        log.read(3, 100)
    assert values(log) == [b"%d" % index for index in range(4, 10)]
    with pytest.raises(KafkaError) as caught:
        log.delete_records_before(11)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


# Flushing


def test_a_flush_moves_the_recovery_point_to_what_it_covered(tmp_path):
    log = open_at(tmp_path, SMALL)
    for index in range(20):
        log.append(batch(b"%d" % index), leader_epoch=0)
    job = log.begin_flush()
    log.append(batch(b"later"), leader_epoch=0)
    job.run()
    log.finish_flush(job)
    assert (log.recovery_point, log.unflushed_records) == (20, 1)


def test_a_flush_begun_before_a_truncation_does_not_cover_later_appends(tmp_path):
    log = open_at(tmp_path)
    for _ in range(4):
        log.append(batch(b"old"), leader_epoch=0)
    job = log.begin_flush()
    job.run()
    log.truncate_to(1)
    for _ in range(3):
        log.append(batch(b"new"), leader_epoch=1)
    log.finish_flush(job)
    assert log.recovery_point <= 1
    log.flush()
    assert log.recovery_point == 4


def test_a_flush_that_ends_before_an_earlier_flush_syncs_the_directory(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk=disk))
    log.append(batch(b"1"), leader_epoch=0)
    log.roll()
    log.append(batch(b"2"), leader_epoch=0)
    first, second = log.begin_flush(), log.begin_flush()
    disk.operations.clear()
    second.run()
    log.finish_flush(second)
    assert log.recovery_point == 2
    assert ("fsync", log.directory) in disk.operations
    log.roll()
    first.run()
    log.finish_flush(first)
    assert log.has_unsynced, "the name of the third segment came after both"
    log.flush()
    assert not log.has_unsynced


def test_flush_is_due_by_time_and_roll(tmp_path):
    clock = ManualClock()
    log = open_at(tmp_path, LogConfig(flush_messages=1, flush_ms=1000), surroundings(clock=clock))
    assert not log.is_flush_due()
    log.append(batch(b"d"), leader_epoch=0)
    assert not log.is_flush_due()
    clock.now_ms += 1000
    assert log.is_flush_due()
    log.flush()
    log.update_config(LogConfig())
    log.append(batch(b"e"), leader_epoch=0)
    log.roll()
    assert log.is_flush_due()


def test_stored_batches_pass_their_crc(tmp_path):
    log = open_at(tmp_path)
    log.append(batch(b"a", b"b"), leader_epoch=9)
    data = log.read(0, 1000)
    assert crc_matches(data, 0, parse_header(data))


def test_an_undecodable_marker_from_the_leader_is_not_stored(tmp_path):
    log = open_at(tmp_path)
    log.append(replicated(0, b"a"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    unreadable = encode_batch(
        [Record(key=b"?", value=b"", timestamp=NOW_MS)],
        base_offset=1,
        partition_leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    stored = log.size_in_bytes
    for _ in range(2):
        with pytest.raises(KafkaError, match="the marker at offset 1") as rejected:
            sent = bytes(unreadable) + bytes(replicated(2, b"c"))
            log.append(sent, leader_epoch=0, origin=AppendOrigin.REPLICATION)
        assert rejected.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (log.log_end_offset, log.size_in_bytes) == (1, stored)
    log.append(replicated(1, b"b"), leader_epoch=0, origin=AppendOrigin.REPLICATION)
    assert values(log) == [b"a", b"b"]
