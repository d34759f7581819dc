"""The file recovery-point-offset-checkpoint after truncation, and when the log ends below its value."""

from __future__ import annotations

import pytest

from tests.log.faults import FaultyDisk, broken, full
from tests.log.managed import CONFIG, config_of, managed
from tests.log.support import batch, surroundings, values


def test_a_truncation_is_checkpointed_before_it_happens(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(5):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.flush()
    manager.directories.checkpoint({})
    log.truncate_to(2)
    assert (tmp_path / "d0" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    manager.close(clean=False)


def test_a_truncation_inside_a_batch_is_checkpointed_at_the_start_of_the_batch(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a"), leader_epoch=0)
    log.append(batch(b"b", b"c", b"d"), leader_epoch=0)
    log.flush()
    manager.directories.checkpoint({})
    log.truncate_to(3)
    assert (tmp_path / "d0" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    assert (log.recovery_point, log.log_end_offset) == (1, 1)
    manager.close(clean=False)


def test_a_recovery_point_above_the_log_end_is_lowered_at_start(tmp_path):
    manager = managed(tmp_path)
    for partition in range(2):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.directories.checkpoint({})
    manager.close(clean=False)
    checkpoint = tmp_path / "d0" / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n2\nt 0 7\nt 1 0\n")
    again = managed(tmp_path)
    again.load_all(config_of)
    assert checkpoint.read_text() == "0\n2\nt 0 1\nt 1 0\n"
    again.close(clean=False)


def test_a_checkpoint_stays_when_its_directory_goes_offline_while_it_is_loaded(tmp_path):
    manager = managed(tmp_path)
    for partition in range(2):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.close(clean=False)
    checkpoint = tmp_path / "d0" / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 7\n")
    disk = FaultyDisk()
    again = managed(tmp_path, surroundings(disk))
    disk.fail = lambda operation, path: broken(operation, path) if operation == "read" and "/t-1/" in path else None
    assert again.load_all(config_of) == 1
    assert again.directories[0].is_offline
    assert ("replace", str(checkpoint)) not in disk.operations
    assert checkpoint.read_text() == "0\n1\nt 0 7\n"
    again.close(clean=False)


@pytest.mark.parametrize(("failure", "is_offline"), [(full, False), (broken, True)])
def test_a_recovery_point_above_the_log_end_stays_if_the_checkpoint_cannot_be_written(tmp_path, failure, is_offline):
    manager = managed(tmp_path)
    manager.get_or_create("t", 0, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.close(clean=False)
    checkpoint = tmp_path / "d0" / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 7\n")
    disk = FaultyDisk()
    again = managed(tmp_path, surroundings(disk))
    disk.fail = lambda operation, path: failure(operation, path) if operation + path == f"replace{checkpoint}" else None
    assert again.load_all(config_of) == 1
    assert again.directories[0].is_offline is is_offline
    assert checkpoint.read_text() == "0\n1\nt 0 7\n"
    again.close(clean=False)


@pytest.mark.parametrize("offset", [20, 12])
@pytest.mark.parametrize("fully", [False, True])
def test_a_truncation_below_the_log_start_lowers_the_log_start_checkpoint(tmp_path, offset, fully):
    """Otherwise a start after a crash would treat newer records as deleted."""
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for _ in range(5):
        log.append(batch(*[b"deleted"] * 10), leader_epoch=0)
    log.delete_records_before(25)
    log.flush()
    manager.directories.checkpoint({})
    if fully:
        log.truncate_fully_and_start_at(offset)
    else:
        log.truncate_to(offset)
    start = log.log_start_offset
    assert start <= offset
    for _ in range(4):
        log.append(batch(b"new"), leader_epoch=1)
    log.flush()
    manager.close(clean=False)
    manager = managed(tmp_path)
    manager.load_all(config_of)
    again = manager.get("t", 0)
    assert (again.log_start_offset, again.log_end_offset) == (start, start + 4)
    assert values(again) == [b"new"] * 4


def test_a_truncation_above_the_log_start_keeps_the_log_start_checkpoint(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for _ in range(5):
        log.append(batch(*[b"v"] * 10), leader_epoch=0)
    log.delete_records_before(15)
    log.flush()
    manager.directories.checkpoint({})
    file = tmp_path / "d0" / "log-start-offset-checkpoint"
    written = file.stat().st_ino
    log.truncate_to(30)
    assert file.read_text() == "0\n1\nt 0 15\n"
    assert file.stat().st_ino == written, "nothing was to be written"
