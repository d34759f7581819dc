"""A log directory that fails: what is asked of its logs then, and that the other directories go on."""

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.log.log_manager import LogManager
from tests.log.faults import FaultyDisk, broken
from tests.log.support import ManualClock, batch, surroundings

CONFIG = LogConfig(file_delete_delay_ms=0)


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def manager(tmp_path, disk, clock):
    """Of two directories: the logs of even partitions are in the first one."""
    with_two = LogManager([str(tmp_path / "d0"), str(tmp_path / "d1")], surroundings(disk, clock))
    yield with_two
    with_two.close(clean=False)


@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_deleting_on_a_failing_directory_takes_it_offline_and_nothing_else(manager, disk, tmp_path, operation):
    for partition in range(4):
        manager.get_or_create("t", partition, CONFIG, None)
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if what == operation and path.startswith(bad) else None
    manager.delete_all(("t", partition) for partition in range(4))
    assert list(manager.logs()) == []
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    assert not (tmp_path / "d1" / "t-1").exists()
    again = manager.get_or_create("t", 0, CONFIG, None)
    assert again.directory == str(tmp_path / "d1" / "t-0")


def test_retention_of_a_failing_directory_leaves_the_others_to_do_theirs(manager, disk, clock, tmp_path):
    config = LogConfig(retention_ms=1)
    logs = [manager.get_or_create("t", partition, config, None) for partition in range(4)]
    for log in logs:
        log.append(batch(b"a"), leader_epoch=0)
    clock.now_ms += 10_000_000_000
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if path.startswith(bad) else None
    manager.apply_retention(lambda log: log.log_end_offset)
    assert [log.failure is not None for log in logs] == [True, False, True, False]
    assert [log.log_start_offset for log in logs[1::2]] == [1, 1]


def test_a_directory_that_cannot_be_looked_into_for_a_partition_goes_offline(manager, disk, tmp_path):
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if what == "stat" and path.startswith(bad) else None
    with pytest.raises(DiskFailure):
        manager.get_or_create("t", 0, CONFIG, None)
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    assert manager.get_or_create("t", 0, CONFIG, None).directory == str(tmp_path / "d1" / "t-0")
