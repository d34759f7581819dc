"""The scrubber: which segments it reads, which damage it finds, and removal of segments during a scrub."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.log.errors import CorruptLogError
from kwire.log.partition_log import PartitionLog
from kwire.log.scrubbing import STEP_BYTES, one_pass
from kwire.protocol.error_codes import KafkaError
from tests.log.faults import FaultyDisk, broken
from tests.log.support import batch, open_at, surroundings

CONFIG = LogConfig(segment_bytes=100_000, retention_bytes=0, file_delete_delay_ms=0)


def filled(directory: Path, disk: FaultyDisk | None = None, count: int = 60) -> PartitionLog:
    log = open_at(directory, CONFIG, surroundings(disk))
    for index in range(count):
        log.append(batch(b"%d" % index + b"x" * 10_000), leader_epoch=0)
    assert len(log.segments) > 4
    return log


def flip_a_bit(log: PartitionLog, segment: int, position: int) -> None:
    path = Path(log.segments[segment].file.path)
    data = bytearray(path.read_bytes())
    data[position] ^= 0x04
    path.write_bytes(data)


def test_a_pass_reads_all_closed_segments_in_small_steps(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sizes = list(one_pass([log], lambda _: True))
    assert sum(sizes) == sum(segment.size for segment in log.segments) - log.segments.active.size
    assert max(sizes) <= STEP_BYTES
    assert log.failure is None


@pytest.mark.parametrize("segment", [0, 2])
@pytest.mark.parametrize("position", [100, 45_000])
def test_a_flipped_bit_takes_its_log_offline_and_no_other(tmp_path: Path, segment: int, position: int) -> None:
    logs = [filled(tmp_path / "a"), filled(tmp_path / "b")]
    flip_a_bit(logs[0], segment, position)  # also finds damage in data that this process wrote and read
    sizes = list(one_pass(logs, lambda _: True))
    assert isinstance(logs[0].failure, CorruptLogError)
    assert logs[1].failure is None
    assert sum(sizes) >= logs[1].size_in_bytes - logs[1].segments.active.size
    with pytest.raises(KafkaError):
        logs[0].append(batch(b"more"), leader_epoch=0)


def test_the_active_segment_is_left_to_its_readers(tmp_path: Path) -> None:
    log = filled(tmp_path)
    flip_a_bit(log, len(log.segments) - 1, 100)
    assert list(one_pass([log], lambda _: True))
    assert log.failure is None


def test_segments_may_go_during_a_pass(tmp_path: Path) -> None:
    log = filled(tmp_path)
    steps = one_pass([log], lambda _: True)
    next(steps)
    log.apply_retention(0, log.log_end_offset - 1)
    assert len(log.segments) == 1
    assert list(steps) == []
    assert log.failure is None


def test_a_batch_larger_than_a_step_is_read_whole(tmp_path: Path) -> None:
    log = open_at(tmp_path, CONFIG)
    for _ in range(3):
        log.append(batch(b"x" * 90_000), leader_epoch=0)
    assert [size > STEP_BYTES for size in one_pass([log], lambda _: True)] == [True, True]


def test_a_disk_that_fails_takes_the_log_offline(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = filled(tmp_path, disk)
    disk.fail = lambda operation, path: broken(operation, path) if operation == "read" else None
    assert list(one_pass([log], lambda _: True)) == []
    assert log.failure is not None


def test_a_segment_that_is_cut_and_refilled_under_a_pass_is_sound(tmp_path: Path) -> None:
    log = open_at(tmp_path, LogConfig())
    for index in range(8):
        log.append(batch(b"x" * (20_000 + index)), leader_epoch=0)
    log.roll()
    steps = one_pass([log], lambda _: True)
    next(steps)
    log.truncate_to(2)
    for index in range(20):
        log.append(batch(b"new" * (3_000 + index)), leader_epoch=1)
    log.roll()
    assert sum(steps) == log.size_in_bytes
    assert log.failure is None


def test_a_log_that_is_deleted_during_a_pass_is_left_alone(tmp_path: Path) -> None:
    deleted, other = filled(tmp_path / "a"), filled(tmp_path / "b")
    held = {deleted, other}
    steps = one_pass([deleted, other], held.__contains__)
    next(steps)
    held.remove(deleted)
    (tmp_path / "a").rename(tmp_path / "a.0-delete")
    assert sum(steps) == other.size_in_bytes - other.segments.active.size
    assert deleted.failure is None


def test_a_log_that_failed_before_it_had_a_segment_is_skipped(tmp_path: Path) -> None:
    disk = FaultyDisk()
    failed, other = filled(tmp_path / "a", disk), filled(tmp_path / "b")
    disk.fail = lambda operation, path: broken(operation, path) if operation == "create" else None
    with pytest.raises(DiskFailure):
        failed.truncate_fully_and_start_at(7)
    assert (len(failed.segments), failed.failure is None) == (0, False)
    assert sum(one_pass([failed, other], lambda _: True)) == other.size_in_bytes - other.segments.active.size
