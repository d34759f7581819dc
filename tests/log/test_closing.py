"""Clean close of all logs: which files are synced, in which order, and when a directory gets no shutdown marker."""

from uuid import UUID

import pytest

from kwire.log.disk import RealDisk
from kwire.log.errors import CorruptLogError, LogClosedError
from kwire.log.jobs import run_here
from kwire.log.log_manager import LogManager
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.log.faults import FaultyDisk, broken, full
from tests.log.managed import CONFIG, config_of
from tests.log.support import batch, surroundings, values
from tests.log.test_producer_state import send

COUNT = 4
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def opened(tmp_path, disk):
    """Return a function that opens the log directory."""

    def open_again():
        manager = LogManager([str(tmp_path / "d")], surroundings(disk))
        manager.load_all(config_of)
        return manager

    return open_again


def filled(manager):
    """Append one record to each log without a flush, and return the manager."""
    for partition in range(COUNT):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    return manager


def changes_of_close(disk, manager):
    """Return the (operation, path below the log directory) of each sync and write of a clean close."""
    disk.operations.clear()
    manager.close(clean=True)
    root = manager.directories[0].path
    return [
        (what, path.removeprefix(root).lstrip("/")) for what, path in disk.operations if what in ("fsync", "replace")
    ]


def damaged(what, path):
    return CorruptLogError(f"{what} of odd bytes in {path}")


def closing(manager):
    return manager.closing(clean=True, high_watermarks={})


def test_the_directory_that_holds_new_logs_is_synced_once_for_all_of_them(disk, opened):
    changes = changes_of_close(disk, filled(opened()))
    last_log = max(index for index, (_, path) in enumerate(changes) if path.startswith("t-"))
    first_checkpoint = min(index for index, (_, path) in enumerate(changes) if "checkpoint" in path and "/" not in path)
    assert changes[last_log + 1 : first_checkpoint] == [("fsync", "")]
    assert changes[: last_log + 1].count(("fsync", "")) == 0


def test_the_clean_shutdown_file_is_written_last(disk, opened):
    changes = changes_of_close(disk, filled(opened()))
    assert changes[-1] == ("fsync", "")  # makes the marker's name durable
    assert changes[-2] == ("replace", MARKER)
    assert [path for _, path in changes].count(MARKER) == 1


def test_an_index_without_entries_is_not_synced(disk, opened):
    changes = changes_of_close(disk, filled(opened()))
    synced = {path.rpartition(".")[2] for what, path in changes if what == "fsync" and path.startswith("t-0/0")}
    assert synced == {"log", "timeindex"}


def test_closing_does_not_sync_unchanged_logs(disk, opened):
    filled(opened()).close(clean=True)
    manager = opened()
    assert [path for _, path in changes_of_close(disk, manager) if path.startswith("t-")] == []
    assert [values(log) for log in opened().logs()] == [[b"a"]] * COUNT


def test_files_written_by_recovery_are_synced_even_if_all_records_are_durable(disk, opened):
    manager = filled(opened())
    for log in manager.logs():
        log.flush()
    manager.directories.checkpoint({})
    manager.close(clean=False)
    changes = changes_of_close(disk, opened())
    assert {path for what, path in changes if what == "fsync" and path.startswith("t-0/0")} == {
        f"t-0/{'0' * 20}.{kind}" for kind in ("log", "index", "timeindex")
    }


def test_a_failed_directory_sync_takes_the_log_directory_offline(disk, opened, tmp_path):
    manager = filled(opened())
    root = manager.directories[0].path
    disk.fail = lambda what, path: broken(what, path) if (what, path) == ("fsync", root) else None
    manager.close(clean=True)
    assert manager.directories[0].is_offline
    assert not (tmp_path / "d" / MARKER).exists()


def test_a_directory_sync_without_a_descriptor_leaves_no_clean_shutdown_file(disk, opened, tmp_path):
    manager = filled(opened())
    root = manager.directories[0].path
    disk.fail = lambda what, path: full(what, path) if (what, path) == ("fsync", root) else None
    manager.close(clean=True)
    assert not manager.directories[0].is_offline
    assert not (tmp_path / "d" / MARKER).exists()


@pytest.mark.parametrize("path_end", [".log", "partition.metadata", "/t-2"])
def test_a_log_sync_without_a_descriptor_leaves_no_clean_shutdown_file(disk, opened, tmp_path, path_end):
    manager = filled(opened())
    logs = list(manager.logs())
    logs[2].assign_topic_id(UUID(int=1))
    disk.fail = lambda what, path: (
        full(what, path) if what == "fsync" and "/t-2" in path and path.endswith(path_end) else None
    )
    manager.close(clean=True)
    assert [log.recovery_point for log in logs] == [1, 1, 0, 1]
    assert not manager.directories[0].is_offline
    assert not (tmp_path / "d" / MARKER).exists()


def test_a_clean_shutdown_file_that_cannot_be_synced_takes_the_directory_offline(disk, opened):
    manager = filled(opened())
    disk.fail = lambda what, path: broken(what, path) if what == "replace" and path.endswith(MARKER) else None
    manager.close(clean=True)
    assert manager.directories[0].is_offline


@pytest.mark.parametrize("flaw", [full, damaged])
def test_a_truncation_that_cannot_be_completed_does_not_keep_other_logs_open(disk, opened, tmp_path, flaw):
    manager = filled(opened())
    logs = list(manager.logs())
    for sequence in range(3):
        send(logs[1], sequence)
    logs[1].cut_to(3)
    disk.fail = lambda what, path: flaw(what, path) if what == "read" and "/t-1/" in path else None
    manager.close(clean=True)
    assert [log.recovery_point for log in logs] == [1, 0, 1, 1]
    assert all(log.failure is not None for log in logs), "they are closed"
    assert not manager.directories[0].is_offline
    assert not (tmp_path / "d" / MARKER).exists()
    disk.fail = lambda what, path: None
    assert [values(log) for log in opened().logs()] == [[b"a"], [b"a", b"value", b"value"], [b"a"], [b"a"]]


def test_a_log_that_is_closed_takes_no_more_records(opened):
    manager = filled(opened())
    logs = list(manager.logs())
    run_here(closing(manager))
    for log in logs:
        with pytest.raises(KafkaError) as rejected:
            log.append(batch(b"late"), leader_epoch=0)
        assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    manager.close(clean=False)
    assert [values(log) for log in opened().logs()] == [[b"a"]] * COUNT


def test_no_log_takes_records_from_the_beginning_of_a_close_on(opened, tmp_path):
    """A request in progress would append records after the flush."""
    manager = filled(opened())
    rejected = []
    for stage in closing(manager):
        for job in stage:
            for log in manager.logs():  # each log is closed, being flushed, or waiting
                with pytest.raises(KafkaError, match="is closed") as caught:
                    log.append(batch(b"late"), leader_epoch=0)
                rejected.append(caught.value.code)
            job.run()
            job.finish()
    assert set(rejected) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert (tmp_path / "d" / MARKER).exists()
    manager.close(clean=False)
    assert [values(log) for log in opened().logs()] == [[b"a"]] * COUNT


def test_no_log_is_made_from_the_beginning_of_a_close_on(opened, tmp_path):
    manager = filled(opened())
    stages = closing(manager)
    next(stages)
    with pytest.raises(LogClosedError, match="t-9 is not opened: the broker stops"):
        manager.get_or_create("t", 9, CONFIG, None)
    assert not (tmp_path / "d" / "t-9").exists()


def test_a_close_needs_no_more_descriptors_than_the_disk_may_have(opened, tmp_path):
    disk = RealDisk(open_files_max=4)
    manager = LogManager([str(tmp_path / "d")], surroundings(disk))
    log = filled(manager).get("t", 0)
    for _ in range(10):
        log.roll()
        log.append(batch(b"a"), leader_epoch=0)
    for stage in closing(manager):
        jobs = list(stage)  # all jobs of a stage start at the same time
        assert disk.open_files <= 4
        for job in jobs:
            job.run()
            job.finish()
    assert (tmp_path / "d" / MARKER).exists()
    manager.close(clean=False)
    assert values(opened().get("t", 0)) == [b"a"] * 11


def reasons(caplog):
    """Return the messages about directories without a marker."""
    said = [record.getMessage() for record in caplog.records]
    return [each for each in said if "gets no clean shutdown marker" in each]


def test_a_directory_without_clean_shutdown_file_is_logged_once_with_its_reason(disk, opened, caplog):
    manager = filled(opened())
    root = manager.directories[0].path
    for partition in (1, 2):
        manager.get("t", partition).health.damaged(CorruptLogError("odd bytes"))
    manager.close(clean=True)
    (reason,) = reasons(caplog)
    assert reason.startswith(f"{root} gets no clean shutdown marker, and the next start recovers it: t-1 is offline: ")


def test_an_offline_directory_without_clean_shutdown_file_is_logged(disk, opened, caplog):
    manager = filled(opened())
    root = manager.directories[0].path
    disk.fail = lambda what, path: broken(what, path) if what == "fsync" and "/t-2/" in path else None
    manager.close(clean=True)
    (reason,) = reasons(caplog)
    assert reason.startswith(f"{root} gets no clean shutdown marker, and the next start recovers it: it is offline: ")


def test_a_close_without_flushes_logs_that_there_is_no_clean_shutdown_file(opened, caplog):
    manager = filled(opened())
    manager.close(clean=False)
    assert len(reasons(caplog)) == 1


def test_closing_logs_its_progress(opened, caplog):
    caplog.set_level("INFO")
    manager = filled(opened())
    root = manager.directories[0].path
    manager.close(clean=True, broker_epoch=7)
    said = [record.getMessage() for record in caplog.records]
    assert said[-3:] == [
        f"Flushing and closing logs at {root}: {COUNT} to do",
        f"Flushing and closing logs at {root}: {COUNT} of {COUNT} done",
        f"Writing clean shutdown marker at {root} with broker epoch=7",
    ]
