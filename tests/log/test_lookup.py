"""Searches for records by timestamp."""

from __future__ import annotations

import pytest

from kwire.log.config import LogConfig
from kwire.log.timestamp_search import TimestampOffset
from kwire.protocol.compression import Codec
from kwire.protocol.records import Record, encode_batch
from tests.log.searching import max_timestamp_offset, offset_for_timestamp
from tests.log.support import NOW_MS, batch, open_at


@pytest.mark.parametrize("codec", list(Codec))
def test_a_timestamp_lookup_finds_the_first_record_at_or_after_it(tmp_path, codec):
    log = open_at(tmp_path, LogConfig(segment_bytes=400, index_interval_bytes=50))
    stamps = [5, 3, 9, 7, 20, 15, 20, 30, 11, 31, 28, 40]
    for start in range(0, len(stamps), 2):
        records = [Record(value=b"v", timestamp=NOW_MS + stamp) for stamp in stamps[start : start + 2]]
        log.append(encode_batch(records, codec=codec), leader_epoch=start)
    for wanted in range(42):
        expected = next((index for index, stamp in enumerate(stamps) if stamp >= wanted), None)
        found = offset_for_timestamp(log, NOW_MS + wanted)
        if expected is None:
            assert found is None
        else:
            epoch = expected // 2 * 2
            assert found == TimestampOffset(expected, NOW_MS + stamps[expected], epoch)
    assert max_timestamp_offset(log) == TimestampOffset(11, NOW_MS + 40, 10)


def test_deleted_records_are_not_found_but_by_the_largest_timestamp(tmp_path):
    """Kafka searches whole segments for the largest timestamp, and segments still contain the deleted records."""
    log = open_at(tmp_path)
    log.append(batch(b"a", b"b", b"c", timestamp=NOW_MS), leader_epoch=0)
    log.delete_records_before(2)
    assert offset_for_timestamp(log, 0) == TimestampOffset(2, NOW_MS, 0)
    assert max_timestamp_offset(log) == TimestampOffset(0, NOW_MS, 0)


def test_the_first_of_several_largest_timestamps_is_reported(tmp_path):
    log = open_at(tmp_path)
    for _ in range(3):
        log.append(batch(b"a", b"b", timestamp=NOW_MS), leader_epoch=0)
    assert max_timestamp_offset(log) == TimestampOffset(0, NOW_MS, 0)


def test_an_empty_log_has_no_timestamps(tmp_path):
    log = open_at(tmp_path)
    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp_offset(log) is None


@pytest.mark.parametrize("is_reopened", [False, True])
def test_the_max_timestamp_of_records_without_timestamps_is_at_the_first_record(tmp_path, is_reopened):
    log = open_at(tmp_path)
    for _ in range(3):
        log.append(batch(timestamp=-1), leader_epoch=0)
    if is_reopened:
        log.close(clean=True)
        log = open_at(tmp_path, clean=True, recovery_point=3)
    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp_offset(log) == TimestampOffset(0, -1, 0)
    log.close(clean=True)
