"""Retention: which records a log may delete, and in which order."""

from __future__ import annotations

import pytest

from kwire.log import retention
from kwire.log.config import LogConfig
from kwire.protocol.error_codes import KafkaError
from tests.log.faults import FaultyDisk, full
from tests.log.managed import managed
from tests.log.support import NOW_MS, ManualClock, batch, open_at, surroundings, values


def filled(tmp_path, config, *, count=10, timestamps=None):
    """Return a log with one segment for each record."""
    log = open_at(tmp_path, config, surroundings(clock=ManualClock()))
    for index in range(count):
        log.append(batch(b"%d" % index, timestamp=timestamps[index] if timestamps else NOW_MS + index), leader_epoch=0)
        if index < count - 1:
            log.roll()
    return log


def test_old_segments_go_first_and_files_wait(tmp_path):
    log = filled(tmp_path, LogConfig(retention_ms=100, file_delete_delay_ms=60))
    pending = log.apply_retention(NOW_MS + 103, log.log_end_offset)
    assert log.log_start_offset == 3
    assert [deletion.delay_ms for deletion in pending] == [60] * 3
    assert pending[0].paths[0].endswith("00000000000000000000.log.deleted")
    assert not (tmp_path / "00000000000000000000.log").exists()
    assert (tmp_path / "00000000000000000000.log.deleted").exists()
    assert values(log) == [b"%d" % index for index in range(3, 10)]
    with pytest.raises(KafkaError):
        log.read(2, 100)


def test_a_young_segment_protects_what_follows_it(tmp_path):
    timestamps = [NOW_MS, NOW_MS + 500, NOW_MS, NOW_MS]
    log = filled(tmp_path, LogConfig(retention_ms=100), count=4, timestamps=timestamps)
    log.apply_retention(NOW_MS + 200, log.log_end_offset)
    assert log.log_start_offset == 1


def test_nothing_above_the_high_watermark_goes(tmp_path):
    log = filled(tmp_path, LogConfig(retention_ms=100))
    log.apply_retention(NOW_MS + 10_000, 4)
    assert log.log_start_offset == 4


def test_the_active_segment_goes_too_when_all_of_it_is_old(tmp_path):
    log = filled(tmp_path, LogConfig(retention_ms=100))
    log.apply_retention(NOW_MS + 10_000, log.log_end_offset)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (10, 10, 1)
    assert log.apply_retention(NOW_MS + 20_000, 10) == []
    assert log.append(batch(b"new"), leader_epoch=1).base_offset == 10


def test_size_keeps_at_least_what_is_allowed(tmp_path):
    size = len(batch(b"0"))
    log = filled(tmp_path, LogConfig(retention_ms=-1, retention_bytes=4 * size + 1))
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert log.log_start_offset == 5
    log.update_config(LogConfig(retention_ms=-1, retention_bytes=-1))
    assert log.apply_retention(NOW_MS + 10**9, log.log_end_offset) == []


def test_records_without_timestamp_age_with_their_file(tmp_path):
    log = filled(tmp_path, LogConfig(retention_ms=100), count=2, timestamps=[-1, -1])
    modified = retention.modified_ms(log, log.segments.first)
    assert log.apply_retention(modified, 2) == []
    log.apply_retention(retention.modified_ms(log, log.segments.active) + 101, 2)
    assert log.log_start_offset == 2


def test_a_compacted_topic_loses_only_deleted_records(tmp_path):
    log = filled(tmp_path, LogConfig(retention_ms=1, retention_bytes=1, cleanup_policy=("compact",)))
    assert log.apply_retention(NOW_MS + 10**9, log.log_end_offset) == []
    log.delete_records_before(6)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert (log.segments.first.base_offset, log.log_start_offset) == (6, 6)


@pytest.mark.parametrize(
    ("config", "begins_at"),
    [
        (LogConfig(retention_ms=100), 0),
        (LogConfig(retention_ms=-1, retention_bytes=0), 0),
        (LogConfig(retention_ms=-1), 10**6),
        (LogConfig(retention_ms=40, retention_bytes=0), 10**6),
    ],
    ids=["retention.ms", "retention.bytes", "log start", "all of them"],
)
def test_retention_removes_many_segments_in_parts(tmp_path, config, begins_at):
    count = 2 * retention.SEGMENTS_AT_ONCE + 5
    log = filled(tmp_path, config, count=count)
    log.delete_records_before(min(begins_at, log.log_end_offset))
    removed = [len(log.apply_retention(NOW_MS + 10_000, log.log_end_offset)) for _ in range(4)]
    assert removed == [retention.SEGMENTS_AT_ONCE, retention.SEGMENTS_AT_ONCE, 5, 0]
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (count, count, 1)
    assert len(list(tmp_path.glob("*.log.deleted"))) == count
    assert len(list(tmp_path.glob("*.log"))) == 1


def test_retention_deletes_segments_without_space_for_a_new_active_segment(tmp_path):
    disk, clock = FaultyDisk(), ManualClock()
    manager = managed(tmp_path, surroundings(disk, clock))
    log = manager.get_or_create("t", 0, LogConfig(retention_ms=1000, retention_bytes=0, file_delete_delay_ms=0), None)
    for index in range(5):
        log.append(batch(b"x", timestamp=NOW_MS + (0 if index < 3 else 1500)), leader_epoch=0)
        if index < 4:
            log.roll()
    clock.now_ms = NOW_MS + 1900
    disk.fail = lambda operation, path: full(operation, path) if operation == "create" else None
    manager.apply_retention(log, log.log_end_offset)
    assert (log.log_start_offset, len(log.segments)) == (3, 2), "the last segment goes when there is space for another"
    assert len(list(tmp_path.glob("d0/t-0/*.log.deleted"))) == 3
    manager.directories.remove_files(manager.directories.take_due_files())
    assert list(tmp_path.glob("d0/t-0/*.deleted")) == []
    disk.fail = lambda operation, path: None
    manager.apply_retention(log, log.log_end_offset)
    assert len([path for path in manager.directories.take_due_files() if path.endswith(".log.deleted")]) == 2, (
        "each of them once"
    )


class TwoClocks(ManualClock):
    """A wall clock that can be set back, and a monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.since_start_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.since_start_ms


def test_deleted_files_are_removed_although_the_wall_clock_is_set_back(tmp_path):
    clock = TwoClocks()
    manager = managed(tmp_path, surroundings(clock=clock))
    manager.get_or_create("t", 0, LogConfig(), None)
    manager.delete("t", 0)
    clock.now_ms -= 365 * 86_400_000
    clock.since_start_ms = 59_999.0
    assert manager.directories.take_due_files() == []
    clock.since_start_ms = 60_000.0
    assert len(manager.directories.take_due_files()) == 1
