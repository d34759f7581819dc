"""Future logs: what is copied, how they replace the current log, and which of two logs a start keeps."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.log.checkpoints import CLEANER_FILE, read_offsets
from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure
from kwire.log.future_logs import MOVED_FILE, PREFERRED_MAX
from kwire.log.log_directory import LogDirectoryError
from kwire.log.log_manager import LogManager
from kwire.log.partition_log import PartitionLog
from tests.log.compaction.support import append, candidate_of, compact
from tests.log.faults import FaultyDisk, broken
from tests.log.support import NOW_MS, FixedChance, ManualClock, batch, everything, retain, surroundings, values

CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0)
COMPACTED = replace(CONFIG, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01, delete_retention_ms=0)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "d0"), str(tmp_path / "d1")]


@pytest.fixture
def manager(paths: list[str], disk: FaultyDisk) -> LogManager:
    return LogManager(paths, surroundings(disk, ManualClock()))


def reopened(manager: LogManager, paths: list[str], config: LogConfig = CONFIG) -> LogManager:
    """Return a manager opened as after a crash of the process."""
    manager.close(clean=False)
    again = LogManager(paths, replace(surroundings(clock=ManualClock()), random_source=FixedChance(drawn=100)))
    again.load_all(lambda topic: config)
    return again


def move(manager: LogManager, log: PartitionLog, index: int) -> PartitionLog:
    copying = manager.futures.begin(log, manager.directories[index])
    while copying.step(300):
        pass
    return manager.futures.replace(log)


def filled(manager: LogManager, count: int = 10, config: LogConfig = CONFIG) -> PartitionLog:
    """Return a log in the first directory with this number of records."""
    log = manager.get_or_create("t", 0, config, None)
    for number in range(count):
        log.append(batch(b"%d" % number), leader_epoch=0)
    assert manager.directories.directory_of(log) is manager.directories[0]
    return log


def test_a_log_that_has_moved_is_the_partitions_log(manager: LogManager, paths: list[str]) -> None:
    moved = move(manager, filled(manager), 1)
    assert manager.get("t", 0) is moved
    assert values(moved) == [b"%d" % number for number in range(10)]
    manager.directories.remove_files(manager.directories.take_due_files())
    assert moved.directory == f"{paths[1]}/t-0"
    assert [path.name for path in Path(paths[0]).iterdir() if path.is_dir()] == []
    assert not Path(moved.directory, MOVED_FILE).exists()


def test_records_appended_after_a_move_are_recovered(manager: LogManager, paths: list[str]) -> None:
    moved = move(manager, filled(manager), 1)
    moved.append(batch(b"later"), leader_epoch=3)
    again = reopened(manager, paths).get("t", 0)
    assert again is not None
    assert values(again)[-1] == b"later"
    assert again.leader_epochs.entries() == [(0, 0), (3, 10)]


def test_a_log_moves_repeatedly_between_two_directories(manager: LogManager, paths: list[str]) -> None:
    log = filled(manager)
    for index in (1, 0, 1, 0):
        log = move(manager, log, index)
        log.append(batch(b"%d" % log.log_end_offset), leader_epoch=0)
    again = reopened(manager, paths).get("t", 0)
    assert again is not None
    assert values(again) == [b"%d" % number for number in range(14)]


def test_a_moved_log_keeps_its_end_after_compaction_of_the_last_batches(manager: LogManager) -> None:
    log = manager.get_or_create("t", 0, COMPACTED, None)
    for number in range(12):
        append(log, (b"k%d" % (number % 2), b"v%d" % number))
    append(log, (b"k0", None), (b"k1", None))
    log.roll()
    assert compact(log) is not None
    log.offsets.first_dirty = 0
    assert compact(log, now_ms=NOW_MS + 1000) is not None
    assert everything(log) == []
    moved = move(manager, log, 1)
    assert (moved.log_start_offset, moved.log_end_offset) == (log.log_start_offset, 14)
    assert append(moved, (b"k", b"v")) == 14


def test_the_cleaner_checkpoint_moves_with_its_log(manager: LogManager, paths: list[str]) -> None:
    """The cleaner's checkpoint of each directory must name the logs in it as soon as they have moved."""
    log = filled(manager, config=COMPACTED)
    log.offsets.first_dirty = 4
    manager.directories.write_checkpoints(manager.directories[0], (CLEANER_FILE,))
    move(manager, log, 1)
    noted = [read_offsets(manager.directories._disk, f"{path}/{CLEANER_FILE}") for path in paths]
    assert noted == [{}, {("t", 0): 4}]


def test_records_copied_before_compaction_are_dirty(manager: LogManager) -> None:
    log = manager.get_or_create("t", 0, COMPACTED, None)
    for number in range(12):
        append(log, (b"k%d" % (number % 2), b"v%d" % number))
    copying = manager.futures.begin(log, manager.directories[1])
    while copying.step(300):
        pass
    end = compact(log)
    assert end is not None
    log.offsets.first_dirty = end.end_offset
    moved = manager.futures.replace(log)
    assert moved.offsets.first_dirty == 0
    assert len(everything(moved)) == 12
    assert candidate_of(moved) is not None
    compact(moved)
    assert len(everything(moved)) < 12


def test_a_moved_log_keeps_a_log_start_inside_a_batch(manager: LogManager, paths: list[str]) -> None:
    log = filled(manager, count=3)
    log.append(batch(b"a", b"b", b"c"), leader_epoch=1)
    log.delete_records_before(4)
    moved = move(manager, log, 1)
    assert (moved.log_start_offset, moved.segments.first.base_offset) == (4, 3)
    assert values(moved) == [b"b", b"c"]
    again = reopened(manager, paths).get("t", 0)
    assert again is not None
    assert (again.log_start_offset, values(again)) == (4, [b"b", b"c"])


def test_an_empty_log_moves_too(manager: LogManager) -> None:
    log = filled(manager)
    log.delete_records_before(10)
    log.roll()
    moved = move(manager, log, 1)
    assert (moved.log_start_offset, moved.log_end_offset) == (10, 10)


def test_retention_may_overtake_the_copying(manager: LogManager) -> None:
    log = filled(manager, count=20)
    copying = manager.futures.begin(log, manager.directories[1])
    assert copying.step(1) > 0
    log.delete_records_before(15)
    retain(manager)
    while copying.step(300):
        pass
    assert values(manager.futures.replace(log)) == [b"%d" % number for number in range(15, 20)]


@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_a_failed_removal_of_the_old_log_does_not_affect_the_new_one(
    manager: LogManager, disk: FaultyDisk, paths: list[str], operation: str
) -> None:
    log = filled(manager)
    disk.fail = lambda tried, path: broken(tried, path) if tried == operation and path.startswith(paths[0]) else None
    moved = move(manager, log, 1)
    assert manager.get("t", 0) is moved
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    moved.append(batch(b"later"), leader_epoch=0)
    disk.fail = lambda tried, path: None
    again = reopened(manager, paths)
    kept = again.get("t", 0)
    assert kept is not None
    assert (kept.directory, values(kept)[-1]) == (moved.directory, b"later")


@pytest.mark.parametrize(("is_old_longer", "kept"), [(True, 0), (False, 1)])
def test_after_a_crash_in_a_move_the_longer_of_two_logs_is_loaded(
    manager: LogManager, paths: list[str], is_old_longer: bool, kept: int
) -> None:
    log = filled(manager)
    log.flush()
    moved = move(manager, log, 1)
    if not is_old_longer:
        moved.append(batch(b"more"), leader_epoch=0)
    manager.close(clean=False)
    (deleted,) = [path for path in Path(paths[0]).iterdir() if path.name.endswith("-delete")]
    deleted.rename(Path(paths[0], "t-0"))
    if is_old_longer:
        newest = max(Path(moved.directory).glob("*.log"))
        newest.unlink()
        max(Path(moved.directory).glob("*.log")).unlink()
    Path(moved.directory, MOVED_FILE).touch()
    again = reopened(manager, paths)
    found = again.get("t", 0)
    assert found is not None
    assert found.directory == f"{paths[kept]}/t-0"
    assert found.log_end_offset == (10 if is_old_longer else 11)
    assert not Path(found.directory, MOVED_FILE).exists()


def test_two_logs_of_a_partition_without_a_move_are_rejected(manager: LogManager, paths: list[str]) -> None:
    filled(manager)
    Path(paths[1], "t-0").mkdir()
    with pytest.raises(LogDirectoryError, match="logs of the same partition"):
        reopened(manager, paths)


def test_an_interrupted_move_is_reported_until_it_restarts(manager: LogManager, paths: list[str]) -> None:
    manager.futures.begin(filled(manager), manager.directories[1])
    killed = reopened(manager, paths)
    again = reopened(killed, paths)
    assert again.futures.interrupted == {("t", 0): paths[1]}
    log = again.get("t", 0)
    assert log is not None
    again.futures.begin(log, again.directories[1])
    left = [name.name for name in Path(paths[1]).iterdir() if name.name.startswith("t-0.")]
    assert sorted(name.rpartition("-")[2] for name in left) == ["delete", "future"]
    again.directories.remove_files(again.directories.take_due_files())
    (future,) = [name.name for name in Path(paths[1]).iterdir() if name.name.startswith("t-0.")]
    assert future.endswith("-future")
    again.close(clean=False)


def test_deleting_a_topic_removes_its_interrupted_future_log(manager: LogManager, paths: list[str]) -> None:
    manager.futures.begin(filled(manager), manager.directories[1])
    again = reopened(manager, paths)
    again.delete("t", 0)
    again.directories.remove_files(again.directories.take_due_files())
    assert not [name for path in paths for name in Path(path).iterdir() if name.name.startswith("t-0")]
    again.close(clean=False)


def test_a_future_log_without_its_log_is_kept(manager: LogManager, paths: list[str]) -> None:
    log = filled(manager)
    copying = manager.futures.begin(log, manager.directories[1])
    Path(log.directory).rename(f"{paths[0]}/elsewhere")
    reopened(manager, paths)
    assert Path(copying.future.directory).is_dir()


def test_a_future_log_that_cannot_be_made_leaves_nothing(
    manager: LogManager, disk: FaultyDisk, paths: list[str]
) -> None:
    log = filled(manager)
    disk.fail = lambda tried, path: broken(tried, path) if tried == "create" and path.startswith(paths[1]) else None
    with pytest.raises(DiskFailure):
        manager.futures.begin(log, manager.directories[1])
    assert manager.futures.get("t", 0) is None
    assert log.failure is None


def test_the_number_of_preferred_directories_is_bounded(manager: LogManager, paths: list[str]) -> None:
    for number in range(PREFERRED_MAX + 1):
        manager.futures.prefer("t", number, paths[1])
    assert manager.futures.preferred("t", 0, manager.directories) == []
    assert manager.futures.preferred("t", 1, manager.directories) == [manager.directories[1]]
    assert manager.futures.preferred("t", 1, manager.directories) == []


def test_a_log_that_ends_behind_its_last_batch_moves_with_its_end(manager: LogManager, paths: list[str]) -> None:
    """Apache Kafka's compaction may remove all batches of the segments before an empty active one."""
    filled(manager, 4)
    manager.close(clean=True)
    Path(paths[0], "t-0", f"{10:020d}.log").touch()
    manager = LogManager(paths, surroundings(clock=ManualClock()))
    manager.load_all(lambda topic: CONFIG)
    log = manager.get("t", 0)
    assert log is not None
    assert (log.log_end_offset, log.read(4, 1000)) == (10, b"")
    moved = move(manager, log, 1)
    assert (moved.log_end_offset, values(moved)) == (10, [b"0", b"1", b"2", b"3"])
    moved.append(batch(b"later"), leader_epoch=0)
    again = reopened(manager, paths).get("t", 0)
    assert again is not None
    assert (again.log_end_offset, again.directory) == (11, f"{paths[1]}/t-0")


def test_a_topic_id_that_came_during_the_move_is_kept(manager: LogManager, paths: list[str]) -> None:
    log = filled(manager)
    copying = manager.futures.begin(log, manager.directories[1])
    log.assign_topic_id(uuid.UUID(int=9))
    while copying.step(300):
        pass
    moved = manager.futures.replace(log)
    assert moved.topic_id == uuid.UUID(int=9)
    again = reopened(manager, paths).get("t", 0)
    assert again is not None
    assert (again.topic_id, again.directory) == (uuid.UUID(int=9), moved.directory)


def test_after_a_crash_in_a_move_a_damaged_end_does_not_count_as_longer(manager: LogManager, paths: list[str]) -> None:
    moved = move(manager, filled(manager), 1)
    manager.close(clean=False)
    (deleted,) = [path for path in Path(paths[0]).iterdir() if path.name.endswith("-delete")]
    deleted.rename(Path(paths[0], "t-0"))
    newest = max(path for path in Path(moved.directory).glob("*.log") if path.stat().st_size)
    for path in Path(moved.directory).glob("*.log"):
        if path >= newest:
            path.write_bytes(bytes(70))
    Path(moved.directory, MOVED_FILE).touch()
    found = reopened(manager, paths).get("t", 0)
    assert found is not None
    assert (found.directory, found.log_end_offset) == (f"{paths[0]}/t-0", 10)
