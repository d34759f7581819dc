"""Parallel opening of all logs at start: the files that a recovery writes, and the state that is shared afterwards."""

import errno
import os

import pytest

from kwire.log.checkpoints import CLEANER_FILE
from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from tests.log.faults import FaultyDisk, broken
from tests.log.managed import CONFIG, config_of, managed
from tests.log.support import batch, surroundings, values

EPOCHS_FILE = "leader-epoch-checkpoint"
COUNT = 4


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def opened(tmp_path, disk):
    """Return a function that opens the log directory."""

    def open_again(with_disk=disk):
        manager = LogManager([str(tmp_path / "d")], surroundings(with_disk))
        manager.load_all(config_of)
        return manager

    return open_again


def killed(manager):
    """Drop the broker as kill -9 does: written data stays."""
    for directory in manager.directories:
        directory.lock.release()


def filled(manager):
    """Append one record to each log without a flush, and return the manager."""
    for partition in range(COUNT):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    return manager


def epoch_files_replaced(disk):
    return [path.split("/")[-2] for what, path in disk.operations if what == "replace" and path.endswith(EPOCHS_FILE)]


def test_a_recovery_that_finds_the_epochs_of_the_file_does_not_write_it(disk, opened):
    killed(filled(opened()))
    disk.operations.clear()
    manager = opened()
    assert [log.leader_epochs.entries() for log in manager.logs()] == [[(0, 0)]] * COUNT
    assert epoch_files_replaced(disk) == []


def test_a_recovery_writes_other_epochs_once(disk, opened, tmp_path):
    manager = filled(opened())
    log = manager.get("t", 1)
    for epoch in range(1, 5):
        log.append(batch(b"b"), leader_epoch=epoch)
    killed(manager)
    path = tmp_path / "d" / "t-1" / EPOCHS_FILE
    whole = path.read_text()
    path.write_text("0\n1\n0 0\n")
    disk.operations.clear()
    opened()
    assert epoch_files_replaced(disk) == ["t-1"]
    assert path.read_text() == whole


def test_an_epoch_without_records_is_not_written(disk, opened):
    manager = filled(opened())
    log = manager.get("t", 0)
    log.flush()
    disk.operations.clear()
    log.assign_epoch_start(3, 1)
    assert (log.leader_epochs.latest_epoch, log.has_unsynced, epoch_files_replaced(disk)) == (3, False, [])
    log.truncate_to(1)  # as a follower of another leader does
    assert (log.leader_epochs.latest_epoch, epoch_files_replaced(disk)) == (0, [])


def test_the_first_record_of_an_epoch_puts_it_into_the_file(disk, opened, tmp_path):
    manager = filled(opened())
    log = manager.get("t", 0)
    log.assign_epoch_start(3, 1)
    disk.operations.clear()
    for _ in range(3):
        log.append(batch(b"b"), leader_epoch=3)
    assert epoch_files_replaced(disk) == ["t-0"]
    assert (tmp_path / "d" / "t-0" / EPOCHS_FILE).read_text() == "0\n2\n0 0\n3 1\n"


def test_a_clean_stop_leaves_the_file_of_an_epoch_without_records_alone(disk, opened):
    filled(opened()).close(clean=True)
    manager = opened()
    for log in manager.logs():
        log.assign_epoch_start(1, 1)
    disk.operations.clear()
    manager.close(clean=True)
    assert epoch_files_replaced(disk) == []
    assert [(values(log), log.leader_epochs.entries()) for log in opened().logs()] == [([b"a"], [(0, 0)])] * COUNT


def test_files_that_a_worker_has_opened_are_counted_with_all_others(opened):
    killed(filled(opened()))
    disk = RealDisk(open_files_max=2)
    manager = opened(disk)
    assert [values(log) for log in manager.logs()] == [[b"a"]] * COUNT
    assert disk.open_files <= 2


def test_files_of_a_disk_part_stay_open_until_it_is_adopted(tmp_path):
    disk = RealDisk(open_files_max=1)
    part = disk.part(1)
    files = [part.open(str(tmp_path / name), create=True) for name in "ab"]
    disk.open(str(tmp_path / "c"), create=True)
    assert (disk.open_files, part.open_files) == (1, 2)
    disk.adopt(part)
    files[0].append(b"x")
    assert part.open_files == disk.open_files == 1


def test_indexes_of_opened_logs_share_one_bound(opened):
    manager = filled(opened())
    log = manager.get("t", 0)
    log.roll()
    log.append(batch(b"b"), leader_epoch=0)
    killed(manager)
    again = opened()
    shared = again._surroundings.indexes
    closed = again.get("t", 0).segments.first
    assert closed.memory is shared


def test_a_device_that_fails_while_logs_are_opened_takes_all_of_them_offline(disk, opened, tmp_path):
    killed(filled(opened()))
    bad = str(tmp_path / "d" / "t-2")
    disk.fail = lambda what, path: broken(what, path) if what == "read" and path.startswith(bad) else None
    manager = opened()
    assert manager.directories[0].is_offline
    assert all(log.failure is not None for log in manager.logs())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_log_that_finds_no_descriptor_stays_closed_until_there_is_one(opened, tmp_path, monkeypatch, number):
    killed(filled(opened()))
    bad, real = str(tmp_path / "d" / "t-2"), os.open

    def scarce(path, *flags_and_mode):
        if str(path).startswith(bad):
            raise OSError(number, os.strerror(number))
        return real(path, *flags_and_mode)

    with monkeypatch.context() as patch:
        patch.setattr("os.open", scarce)
        manager = opened(RealDisk())
    assert not manager.directories[0].is_offline
    assert [log.partition for log in manager.logs()] == [0, 1, 3]
    assert values(manager.get_or_create("t", 2, CONFIG, None)) == [b"a"]


def test_a_second_load_opens_no_log_again(disk, opened):
    killed(filled(opened()))
    manager = opened()
    disk.operations.clear()
    assert manager.load_all(config_of) == 0
    assert disk.operations == []


def test_a_cleaner_checkpoint_with_a_negative_offset_is_ignored(tmp_path):
    manager = managed(tmp_path)
    manager.get_or_create("t", 0, CONFIG, None).append(batch(), leader_epoch=0)
    manager.close(clean=True)
    (tmp_path / "d0" / CLEANER_FILE).write_text("0\n1\nt 0 -1\n")
    again = managed(tmp_path)
    assert again.load_all(config_of) == 1
    found = again.get("t", 0)
    assert found is not None
    assert found.offsets.first_dirty == 0
    again.close(clean=False)
