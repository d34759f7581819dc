"""Log directories: locks, the logs found at start, and the state after a stop."""

from __future__ import annotations

import uuid

import pytest

from kwire.log.config import LogConfig
from kwire.log.disk import DiskFailure, RealDisk
from kwire.log.errors import CorruptLogError
from kwire.log.log_directory import LogDirectoryError, previous_broker_epoch
from kwire.protocol.error_codes import KafkaError
from tests.log.faults import FaultyDisk, broken, full
from tests.log.managed import CONFIG, config_of, managed
from tests.log.support import NOW_MS, ManualClock, batch, retain, surroundings, values


def test_logs_keep_records_and_topic_id_over_a_clean_restart(tmp_path):
    manager = managed(tmp_path)
    topic_id = uuid.uuid4()
    log = manager.get_or_create("my-topic.with_all", 3, CONFIG, topic_id)
    assert manager.get_or_create("my-topic.with_all", 3, CONFIG, topic_id) is log
    log.append(batch(b"a"), leader_epoch=0)
    manager.close(clean=True, broker_epoch=12)
    assert previous_broker_epoch(RealDisk(), [str(tmp_path / "d0")]) == 12
    assert previous_broker_epoch(RealDisk(), [str(tmp_path / "d0"), str(tmp_path)]) == -1
    again = managed(tmp_path)
    assert again.load_all(config_of) == 1
    found = again.get("my-topic.with_all", 3)
    assert found is not None
    assert (found.topic_id, values(found), found.recovery_point) == (topic_id, [b"a"], 1)
    again.close(clean=False)


def test_the_clean_mark_is_written_last_and_removed_first(tmp_path):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk))
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a"), leader_epoch=0)
    manager.close(clean=True)
    writes = [path.rsplit("/", 1)[1] for operation, path in disk.operations if operation != "read"]
    assert writes[-1] == ".kafka_cleanshutdown" or writes[-2] == ".kafka_cleanshutdown"
    disk.operations.clear()
    again = managed(tmp_path, surroundings(disk))
    assert disk.operations[1] == ("unlink", str(tmp_path / "d0" / ".kafka_cleanshutdown"))  # operation 0 takes the lock
    assert disk.operations[2] == ("fsync", str(tmp_path / "d0"))
    again.close(clean=False)
    third = managed(tmp_path)
    assert third.directories[0].was_clean_shutdown is False
    third.close(clean=False)


def test_a_directory_belongs_to_one_manager(tmp_path):
    manager = managed(tmp_path)
    with pytest.raises(LogDirectoryError, match=r"log\.dirs"):
        managed(tmp_path, count=2)
    manager.close(clean=False)
    managed(tmp_path, count=2).close(clean=False)


def test_new_logs_go_where_there_are_fewest(tmp_path):
    manager = managed(tmp_path, count=3)
    for partition in range(7):
        manager.get_or_create("t", partition, CONFIG, None)
    assert [len(directory.logs) for directory in manager.directories] == [3, 2, 2]
    manager.close(clean=False)


def test_deleted_logs_are_renamed_then_removed(tmp_path):
    clock = ManualClock()
    manager = managed(tmp_path, surroundings(clock=clock))
    manager.get_or_create("t", 0, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.delete("t", 0)
    manager.delete("t", 0)
    assert manager.get("t", 0) is None
    (renamed,) = [path.name for path in (tmp_path / "d0").iterdir() if path.is_dir()]
    assert renamed == f"t-0.{uuid.UUID(int=1).hex}-delete"
    assert values(manager.get_or_create("t", 0, CONFIG, None)) == []
    assert manager.directories.take_due_files() == []
    clock.now_ms += 60_000
    manager.directories.remove_files(manager.directories.take_due_files())
    assert manager.directories.take_due_files() == []
    assert [path.name for path in (tmp_path / "d0").iterdir() if path.is_dir()] == ["t-0"]

    manager.close(clean=False)


def test_interrupted_deletions_are_completed_and_foreign_files_kept(tmp_path, caplog):
    root = tmp_path / "d0"
    for name in (f"t-1.{'a' * 32}-delete", f"t-2.{'b' * 32}-stray", "lost+found", "__cluster_metadata-0", "t-00"):
        (root / name).mkdir(parents=True)
        (root / name / "file").write_text("x")
    manager = managed(tmp_path)
    assert manager.load_all(config_of) == 0
    manager.directories.remove_files(manager.directories.take_due_files())
    left = {path.name for path in root.iterdir() if path.is_dir()}
    assert left == {f"t-2.{'b' * 32}-stray", "lost+found", "__cluster_metadata-0", "t-00"}
    assert "lost+found" in caplog.text
    assert "__cluster_metadata-0" not in caplog.text
    manager.close(clean=False)


def test_one_partition_in_two_directories_is_rejected(tmp_path):
    for index in range(2):
        (tmp_path / f"d{index}" / "t-0").mkdir(parents=True)
    manager = managed(tmp_path, count=2)
    with pytest.raises(LogDirectoryError):
        manager.load_all(config_of)
    manager.close(clean=False)


def test_long_topic_names_can_be_deleted(tmp_path):
    manager = managed(tmp_path)
    manager.get_or_create("x" * 249, 0, CONFIG, None)
    manager.delete("x" * 249, 0)
    (renamed,) = [path.name for path in (tmp_path / "d0").iterdir() if path.is_dir()]
    assert len(renamed) == 255
    manager.close(clean=False)


def test_checkpoints_have_the_format_of_kafka(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(5):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.flush()
    log.append(batch(b"later"), leader_epoch=0)
    log.delete_records_before(2)
    manager.directories.checkpoint({("t", 0): 4, ("other", 0): 9})
    root = tmp_path / "d0"
    assert (root / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert (root / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert (root / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"
    manager.close(clean=False)
    again = managed(tmp_path)
    again.load_all(config_of)
    found = again.get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.recovery_point, found.log_end_offset) == (2, 5, 6)
    assert again.directories.checkpointed_high_watermark("t", 0) == 4
    assert again.directories.checkpointed_high_watermark("t", 1) == 0
    again.close(clean=False)


def test_broken_checkpoints_cost_a_scan_and_no_record(tmp_path):
    manager = managed(tmp_path)
    manager.get_or_create("t", 0, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.close(clean=False)
    (tmp_path / "d0" / "recovery-point-offset-checkpoint").write_text("0\n5\n")
    again = managed(tmp_path)
    again.load_all(config_of)
    found = again.get("t", 0)
    assert found is not None
    assert values(found) == [b"a"]
    again.close(clean=False)


def test_a_checkpoint_prepared_before_a_truncation_is_dropped(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(5):
        log.append(batch(b"%d" % index), leader_epoch=0)
    log.flush()
    jobs = manager.directories.begin_checkpoints({("t", 0): 5})
    log.truncate_to(2)
    for job in jobs:
        job.run()
        manager.directories.finish_checkpoint(job)
    root = tmp_path / "d0"
    assert (root / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert not (root / "replication-offset-checkpoint").exists(), "it would speak of what is cut off"
    assert not list(root.glob("*.staged"))
    manager.close(clean=False)


def left_by_an_old_topic(manager):
    """Return a directory whose checkpoints name a deleted topic with a log start of 3."""
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(5):
        log.append(batch(b"old %d" % index), leader_epoch=0)
    log.flush()
    log.delete_records_before(3)
    manager.directories.checkpoint({("t", 0): 5})


def made_again(manager):
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(4):
        log.append(batch(b"%d" % index), leader_epoch=0)
    assert log.log_start_offset == 0


def found_after_a_crash(manager, tmp_path):
    manager.close(clean=False)
    again = managed(tmp_path)
    again.load_all(config_of)
    log = again.get("t", 0)
    found = log.log_start_offset, log.recovery_point, values(log)
    assert again.directories.checkpointed_high_watermark("t", 0) == 0, "no record is known to be committed"
    again.close(clean=False)
    return found


ALL_OF_THE_NEW = (0, 0, [b"0", b"1", b"2", b"3"])


def test_a_recreated_topic_keeps_its_records_after_a_crash(tmp_path):
    manager = managed(tmp_path)
    left_by_an_old_topic(manager)
    manager.delete("t", 0)
    made_again(manager)
    assert found_after_a_crash(manager, tmp_path) == ALL_OF_THE_NEW


def test_a_recreated_topic_keeps_its_records_after_a_crash_before_the_checkpoint(tmp_path):
    manager = managed(tmp_path)
    left_by_an_old_topic(manager)
    manager.delete("t", 0)
    manager.close(clean=False)
    again = managed(tmp_path)
    again.load_all(config_of)
    made_again(again)
    assert found_after_a_crash(again, tmp_path) == ALL_OF_THE_NEW


def test_a_checkpoint_under_way_does_not_bring_a_deleted_log_back(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, None)
    for index in range(5):
        log.append(batch(b"old %d" % index), leader_epoch=0)
    log.flush()
    log.delete_records_before(3)
    jobs = manager.directories.begin_checkpoints({("t", 0): 5})
    manager.delete("t", 0)
    made_again(manager)
    for job in jobs:
        job.run()
        manager.directories.finish_checkpoint(job)
    assert found_after_a_crash(manager, tmp_path) == ALL_OF_THE_NEW


def test_a_log_that_is_deleted_during_its_flush_takes_nothing_offline(tmp_path):
    manager = managed(tmp_path)
    disk = manager._surroundings.disk
    other = manager.get_or_create("other", 0, CONFIG, None)
    open_before = disk.open_files
    log = manager.get_or_create("t", 0, CONFIG, uuid.uuid4())
    log.append(batch(b"a"), leader_epoch=0)
    job = manager.begin_flush(log)
    manager.delete("t", 0)
    job.run()
    manager.finish_flush(log, job)
    assert (manager.directories[0].failure, other.failure) == (None, None)
    assert disk.open_files == open_before
    manager.close(clean=False)


def test_a_log_deleted_before_its_flush_is_skipped(tmp_path):
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, LogConfig(flush_ms=0), None)
    log.append(batch(b"a"), leader_epoch=0)
    assert manager.logs_to_flush() == [log]
    manager.delete("t", 0)
    assert manager.begin_flush(log) is None
    manager.close(clean=False)


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(tmp_path):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk), count=2)
    jobs = manager.directories.begin_checkpoints({})
    bad = str(tmp_path / "d0")
    disk.fail = lambda operation, path: broken(operation, path) if path.startswith(bad) else None
    for job in jobs:
        job.run()
        manager.directories.finish_checkpoint(job)
    assert [directory.failure is not None for directory in manager.directories] == [True, False]
    assert (tmp_path / "d1" / "recovery-point-offset-checkpoint").exists()
    manager.close(clean=False)


def test_a_full_disk_leaves_the_old_checkpoints_in_place(tmp_path, caplog):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk))
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    manager.directories.checkpoint({})
    log.append(batch(b"b"), leader_epoch=0)
    log.flush()
    disk.fail = lambda operation, path: full(operation, path) if operation == "replace" else None
    manager.directories.checkpoint({})
    assert manager.directories[0].failure is None
    assert "full" in caplog.text
    assert (tmp_path / "d0" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    disk.fail = lambda operation, path: None
    manager.directories.checkpoint({})
    assert (tmp_path / "d0" / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    manager.close(clean=False)


def test_a_damaged_log_does_not_stop_the_others(tmp_path):
    manager = managed(tmp_path)
    for partition in range(2):
        log = manager.get_or_create("t", partition, CONFIG, None)
        log.append(batch(b"a"), leader_epoch=0)
        log.flush()
    manager.directories.checkpoint({})
    manager.close(clean=False)
    path = tmp_path / "d0" / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = managed(tmp_path)
    assert again.load_all(config_of) == 1
    assert again.get("t", 0) is None
    with pytest.raises(KafkaError):
        again.get_or_create("t", 0, CONFIG, None)
    again.close(clean=False)


def test_a_closed_log_keeps_its_recovery_point(tmp_path):
    manager = managed(tmp_path)
    for partition in range(2):
        log = manager.get_or_create("t", partition, CONFIG, None)
        log.append(batch(b"a", b"b"), leader_epoch=0)
    manager.close(clean=True)
    again = managed(tmp_path)
    again.get_or_create("t", 0, CONFIG, None)
    again.directories.checkpoint({})
    again.close(clean=False)
    third = managed(tmp_path)
    assert third.directories[0].recovery_points == {("t", 0): 2, ("t", 1): 2}
    third.close(clean=False)


def test_a_failing_directory_goes_offline_as_a_whole(tmp_path):
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk), count=2)
    logs = [manager.get_or_create("t", partition, CONFIG, None) for partition in range(4)]
    bad = str(tmp_path / "d0" / "t-0")
    disk.fail = lambda operation, path: broken(operation, path) if path.startswith(bad) else None
    with pytest.raises(DiskFailure):
        logs[0].append(batch(b"a"), leader_epoch=0)
    assert [log.failure is not None for log in logs] == [True, False, True, False]
    with pytest.raises(KafkaError):
        logs[2].append(batch(b"a"), leader_epoch=0)
    logs[1].append(batch(b"a"), leader_epoch=0)
    assert manager.directories.directory_of(manager.get_or_create("t", 9, CONFIG, None)).path == str(tmp_path / "d1")
    manager.close(clean=True)
    assert not (tmp_path / "d0" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "d1" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("operation", ["list", "create", "read"])
def test_a_directory_that_fails_at_start_leaves_the_others(tmp_path, operation):
    manager = managed(tmp_path, count=2)
    for partition in range(4):
        manager.get_or_create("t", partition, CONFIG, None).append(batch(b"a"), leader_epoch=0)
    manager.close(clean=False)
    disk = FaultyDisk()
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if what == operation and path.startswith(bad) else None
    if operation == "create":
        (tmp_path / "d0" / "t-0" / "00000000000000000000.log").unlink()
    again = managed(tmp_path, surroundings(disk), count=2)
    again.load_all(config_of)
    assert [directory.is_offline for directory in again.directories] == [True, False]
    assert again.directories.any_offline
    assert values(again.directories[1].logs["t", 1]) == [b"a"]
    assert again.directories[1].logs.keys() == {("t", 1), ("t", 3)}
    again.close(clean=True)
    assert not (tmp_path / "d0" / ".kafka_cleanshutdown").exists()


def test_a_directory_that_cannot_be_opened_is_offline_unless_it_is_the_only_one(tmp_path):
    disk = FaultyDisk()
    bad = str(tmp_path / "d0")
    disk.fail = lambda what, path: broken(what, path) if what == "lock" and path.startswith(bad) else None
    manager = managed(tmp_path, surroundings(disk), count=2)
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    assert manager.get_or_create("t", 0, CONFIG, None).directory == str(tmp_path / "d1" / "t-0")
    manager.close(clean=True)
    with pytest.raises(LogDirectoryError, match="every log directory is offline"):
        managed(tmp_path, surroundings(disk), count=1)


def test_a_damaged_log_is_not_recreated_in_another_directory(tmp_path):
    manager = managed(tmp_path, count=2)
    log = manager.get_or_create("t", 0, CONFIG, None)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    manager.get_or_create("t", 1, CONFIG, None)
    manager.directories.checkpoint({})
    manager.close(clean=False)
    path = tmp_path / "d0" / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = managed(tmp_path, count=2)
    again.load_all(config_of)
    again.get_or_create("u", 0, CONFIG, None)
    with pytest.raises(KafkaError):
        again.get_or_create("t", 0, CONFIG, None)
    assert not (tmp_path / "d1" / "t-0").exists()
    again.close(clean=False)


def damaged(tmp_path, topic_id):
    """Return a directory with a log of t-0 whose durable bytes are damaged."""
    manager = managed(tmp_path)
    log = manager.get_or_create("t", 0, CONFIG, topic_id)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    manager.directories.checkpoint({})
    manager.close(clean=False)
    path = tmp_path / "d0" / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    return managed(tmp_path)


@pytest.mark.parametrize("was", [uuid.UUID(int=1), None], ids=["of-an-earlier-topic", "of-no-known-topic"])
def test_a_damaged_log_of_an_earlier_topic_does_not_keep_the_new_one_from_being_made(tmp_path, was):
    manager = damaged(tmp_path, was)
    manager.load_all(config_of)
    log = manager.get_or_create("t", 0, CONFIG, uuid.UUID(int=2))
    assert (log.topic_id, log.log_end_offset, log.recovery_point) == (uuid.UUID(int=2), 0, 0)
    (stray,) = [path for path in (tmp_path / "d0").iterdir() if path.name.endswith("-stray")]
    assert (stray / "00000000000000000000.log").read_bytes().endswith(b"?"), "data without an owner are kept"
    log.append(batch(b"b"), leader_epoch=0)
    manager.close(clean=True)
    again = managed(tmp_path)
    assert again.load_all(config_of) == 1
    assert again.get_or_create("t", 0, CONFIG, uuid.UUID(int=2)).log_end_offset == 1
    again.close(clean=False)


def test_a_damaged_log_of_this_topic_stays_closed_and_goes_with_its_topic(tmp_path):
    manager = damaged(tmp_path, uuid.UUID(int=1))
    manager.load_all(config_of)
    with pytest.raises(CorruptLogError):
        manager.get_or_create("t", 0, CONFIG, uuid.UUID(int=1))
    assert (tmp_path / "d0" / "t-0").exists()
    manager.closed.delete([("t", 0), ("u", 7)])
    assert not (tmp_path / "d0" / "t-0").exists()
    manager._surroundings.clock.now_ms += CONFIG.file_delete_delay_ms
    (path,) = manager.directories.take_due_files()
    assert path.endswith("-delete")
    manager.directories.remove_files([path])
    assert manager.get_or_create("t", 0, CONFIG, uuid.UUID(int=2)).log_end_offset == 0
    manager.close(clean=False)


def test_a_recovery_logs_its_progress(tmp_path, caplog):
    manager = managed(tmp_path)
    for partition in range(3):
        manager.get_or_create("t", partition, CONFIG, None)
    manager.close(clean=False)
    caplog.set_level("INFO")
    again = managed(tmp_path)
    again.load_all(config_of)
    assert "not shut down cleanly: 3 to do" in caplog.text
    assert "not shut down cleanly: 3 of 3 done" in caplog.text
    again.close(clean=True)
    caplog.clear()
    third = managed(tmp_path)
    third.load_all(config_of)
    assert "Recovering" not in caplog.text
    third.close(clean=True)


def test_the_manager_flushes_expires_and_retains_a_log(tmp_path):
    clock = ManualClock()
    manager = managed(tmp_path, surroundings(clock=clock))
    config = LogConfig(retention_ms=100, file_delete_delay_ms=0, flush_ms=0)
    log = manager.get_or_create("t", 0, config, None)
    log.append(batch(b"a", producer_id=1, producer_epoch=0, sequence=0), leader_epoch=0)
    assert manager.logs_to_flush() == [log]
    clock.now_ms = NOW_MS + 1000
    for found in manager.logs():
        manager.expire_producers(found, 1000)
    assert log.producers.active() == []
    retain(manager)
    assert log.log_start_offset == 1
    assert list((tmp_path / "d0" / "t-0").glob("*.deleted"))
    manager.directories.remove_files(manager.directories.take_due_files())
    assert not list((tmp_path / "d0" / "t-0").glob("*.deleted"))
    manager.close(clean=True)
