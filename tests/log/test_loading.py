"""Opening all logs at start, by workers: what a recovery writes, and what is shared afterwards."""

import pytest

from kwire.log.disk import RealDisk
from kwire.log.log_manager import LogManager
from tests.log.faults import FaultyDisk, broken
from tests.log.managed import CONFIG, config_of
from tests.log.support import batch, surroundings, values

COUNT = 4


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def opened(tmp_path, disk):
    """A function that opens the log directory."""

    def open_again(with_disk=disk):
        manager = LogManager([str(tmp_path / "d")], surroundings(with_disk))
        manager.load_all(config_of)
        return manager

    return open_again


def killed(manager):
    """The broker is gone, as after kill -9: what it had written is there."""
    for directory in manager.directories:
        directory.lock.release()


def filled(manager):
    """The manager, with one record in each of its logs, of which none is durable."""
    for partition in range(COUNT):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    return manager


def test_files_that_a_worker_has_opened_are_counted_with_all_others(opened):
    killed(filled(opened()))
    disk = RealDisk(open_files_max=2)
    manager = opened(disk)
    assert [values(log) for log in manager.logs()] == [[b"a"]] * COUNT
    assert disk.open_files <= 2


def test_a_part_of_a_disk_keeps_its_files_until_it_is_adopted(tmp_path):
    disk = RealDisk(open_files_max=1)
    part = disk.part()
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


def test_what_is_loaded_is_not_opened_again(disk, opened):
    killed(filled(opened()))
    manager = opened()
    disk.operations.clear()
    assert manager.load_all(config_of) == 0
    assert disk.operations == []
