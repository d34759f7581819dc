"""A failing log directory: requests on its logs fail, and the other directories continue."""

import uuid

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, DiskFullError, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.log_directory import LogDirectoryError, previous_broker_epoch
from kwire.log.log_manager import LogManager
from kwire.protocol.error_codes import KafkaError
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import ManualClock, batch, retain, surroundings, values

CONFIG = LogConfig(file_delete_delay_ms=0)


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def manager(tmp_path, disk, clock):
    """Return a manager of two directories; logs of even partitions are in the first one."""
    with_two = LogManager([str(tmp_path / "d0"), str(tmp_path / "d1")], surroundings(disk, clock))
    yield with_two
    with_two.close(clean=False)


@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_deleting_on_a_failing_directory_takes_only_that_directory_offline(manager, disk, tmp_path, operation):
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


def test_retention_continues_in_other_directories_when_one_fails(manager, disk, clock, tmp_path):
    config = LogConfig(retention_ms=1)
    logs = [manager.get_or_create("t", partition, config, None) for partition in range(4)]
    for log in logs:
        log.append(batch(b"a"), leader_epoch=0)
    clock.now_ms += 10_000_000_000
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if path.startswith(bad) else None
    retain(manager)
    assert [log.failure is not None for log in logs] == [True, False, True, False]
    assert [log.log_start_offset for log in logs[1::2]] == [1, 1]


def test_a_directory_that_cannot_be_read_goes_offline(manager, disk, tmp_path):
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if what == "stat" and path.startswith(bad) else None
    with pytest.raises(DiskFailure):
        manager.get_or_create("t", 0, CONFIG, None)
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    assert manager.get_or_create("t", 0, CONFIG, None).directory == str(tmp_path / "d1" / "t-0")


def bad_at(disk, tmp_path, *operations, failure=broken):
    """Make these operations fail on the first directory's disk."""
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: failure(what, path) if what in operations and path.startswith(bad) else None


def test_a_directory_that_fails_in_a_clean_close_is_not_marked_clean(manager, disk, tmp_path):
    logs = [manager.get_or_create("t", partition, CONFIG, None) for partition in range(4)]
    for log in logs:
        log.append(batch(b"a"), leader_epoch=0)
    bad_at(disk, tmp_path, "fsync")
    manager.close(clean=True)
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    marks = [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in ("d0", "d1")]
    assert marks == [False, True]
    disk.fail = lambda what, path: None
    again = LogManager([str(tmp_path / "d0"), str(tmp_path / "d1")], surroundings(disk))
    assert again.load_all(lambda _: CONFIG) == 4
    assert [values(log) for log in again.logs()] == [[b"a"]] * 4
    again.close(clean=False)


def test_a_directory_with_unreadable_entries_goes_offline_at_start(manager, disk, clock, tmp_path):
    for partition in range(4):
        manager.get_or_create("t", partition, CONFIG, None)
    manager.close(clean=True)
    again = LogManager([str(tmp_path / "d0"), str(tmp_path / "d1")], surroundings(disk, clock))
    bad_at(disk, tmp_path, "stat")
    assert again.load_all(lambda _: CONFIG) == 2
    assert [directory.is_offline for directory in again.directories] == [True, False]
    assert {log.partition for log in again.logs()} == {1, 3}
    again.close(clean=False)


def test_files_that_cannot_be_removed_stay_until_the_next_start(manager, disk, tmp_path, caplog):
    paths = [tmp_path / "d1" / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_bytes(b"x")
    disk.fail = lambda what, path: broken(what, path) if what == "unlink" and path.endswith("/b") else None
    manager.directories.remove_files(map(str, paths))
    assert [path.exists() for path in paths] == [False, True, False]
    assert f"Leaving {paths[1]} for the next start" in caplog.text
    assert not manager.directories.any_offline


def test_a_log_of_another_topic_stays_until_there_is_space_for_its_new_name(manager, disk, tmp_path):
    other, ours = uuid.UUID(int=100), uuid.UUID(int=101)
    manager.get_or_create("t", 0, CONFIG, other).append(batch(b"a"), leader_epoch=0)
    bad_at(disk, tmp_path, "rename", failure=full)
    for _ in range(2):
        with pytest.raises(DiskFullError):
            manager.get_or_create("t", 0, CONFIG, ours)
        assert (manager.get("t", 0), manager.directories.any_offline) == (None, False)
    disk.fail = lambda what, path: None
    log = manager.get_or_create("t", 0, CONFIG, ours)
    assert (log.topic_id, log.log_end_offset) == (ours, 0)
    (stray,) = (tmp_path / "d0").glob("*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0


def test_without_space_for_a_rename_neither_of_two_logs_is_loaded(disk, tmp_path):
    for index in range(2):
        path = str(tmp_path / f"d{index}")
        alone = LogManager([path], surroundings(disk))
        alone.get_or_create("t", 0, CONFIG, uuid.UUID(int=100 + index))
        alone.close(clean=True)
    bad_at(disk, tmp_path, "rename", failure=full)
    both = LogManager([str(tmp_path / "d0"), str(tmp_path / "d1")], surroundings(disk))
    with pytest.raises(LogDirectoryError, match="logs of the same partition"):
        both.load_all(lambda _: CONFIG, lambda _: uuid.UUID(int=101))
    assert not both.directories.any_offline
    assert len(list(tmp_path.glob("d?/t-0"))) == 2
    both.close(clean=False)


def test_a_deleted_log_writes_nothing_into_an_offline_directory(manager, disk, tmp_path):
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    manager.delete("t", 0)
    directory = manager.directories[0]
    directory.fail(broken("read", directory.path))
    disk.operations.clear()
    with pytest.raises(DiskFailure):
        log.truncate_to(0)
    assert not [path for what, path in disk.operations if what == "replace"]


def test_the_previous_broker_epoch_is_unknown_if_a_directory_cannot_be_read(manager, tmp_path):
    paths = [str(tmp_path / "d0"), str(tmp_path / "d1")]
    manager.close(clean=True, broker_epoch=7)
    assert previous_broker_epoch(RealDisk(), paths) == 7
    mark = tmp_path / "d0" / ".kafka_cleanshutdown"
    mark.unlink()
    assert previous_broker_epoch(RealDisk(), paths) == -1
    mark.mkdir()
    assert previous_broker_epoch(RealDisk(), paths) == -1


def test_no_records_of_an_offline_log_are_deleted(manager):
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a", b"b"), leader_epoch=0)
    log.health.damaged(CorruptLogError("a bit flipped"))
    with pytest.raises(KafkaError):
        log.delete_records_before(1)
    assert log.log_start_offset == 0
