"""Log directories that were absent and return, after their partitions got logs in other directories."""

from __future__ import annotations

import uuid

import pytest

from kwire.log.disk import DiskFailure
from kwire.log.log_directory import LogDirectoryError
from tests.log.faults import FaultyDisk, broken
from tests.log.managed import CONFIG, config_of, managed
from tests.log.support import batch, surroundings


@pytest.mark.parametrize("ours", [0, 1, None], ids=["first", "second", "none"])
def test_a_log_of_another_topic_with_the_same_name_becomes_a_stray(tmp_path, ours):
    """The topic was deleted and created again while the log directory was absent."""
    for index in range(2):
        before = managed(tmp_path / str(index))
        topic_id = uuid.UUID(int=2 if index == ours else 3 + index)
        before.get_or_create("t", 0, CONFIG, topic_id).append(batch(b"%d" % index), leader_epoch=0)
        before.close(clean=True)
        (tmp_path / str(index) / "d0").rename(tmp_path / f"d{index}")
    manager = managed(tmp_path, count=2)
    known = None if ours is None else uuid.UUID(int=2)
    manager.load_all(config_of, lambda _: known)
    kept = [log.directory for log in manager.logs()]
    assert kept == [str(tmp_path / f"d{1 if ours is None else ours}" / "t-0")]
    (stray,) = tmp_path.glob("d?/*-stray")
    assert stray.parent.name == f"d{1 - (1 if ours is None else ours)}"
    manager.close(clean=False)


def test_two_directories_of_the_same_topic_are_rejected(tmp_path):
    for index in range(2):
        before = managed(tmp_path / str(index))
        before.get_or_create("t", 0, CONFIG, uuid.UUID(int=2))
        before.close(clean=True)
        (tmp_path / str(index) / "d0").rename(tmp_path / f"d{index}")
    manager = managed(tmp_path, count=2)
    with pytest.raises(LogDirectoryError, match="logs of the same partition"):
        manager.load_all(config_of, lambda _: uuid.UUID(int=2))
    assert not list(tmp_path.glob("d?/*-stray"))
    manager.close(clean=False)


def test_a_returned_directory_that_fails_goes_offline_and_the_broker_starts(tmp_path):
    for index in range(2):
        before = managed(tmp_path / str(index))
        before.get_or_create("t", 0, CONFIG, uuid.UUID(int=2 + index))
        before.close(clean=True)
        (tmp_path / str(index) / "d0").rename(tmp_path / f"d{index}")
    disk = FaultyDisk()
    manager = managed(tmp_path, surroundings(disk), count=2)
    disk.fail = lambda operation, path: broken(operation, path) if operation == "rename" and "/d1/" in path else None
    manager.load_all(config_of, lambda _: uuid.UUID(int=2))
    assert [directory.is_offline for directory in manager.directories] == [False, True]
    assert [log.directory for log in manager.logs()] == [str(tmp_path / "d0" / "t-0")]
    manager.close(clean=False)


def made_while_devices_failed(path, *failing):
    """Return a partition whose log moved to the next directory each time one failed to create its segment."""
    disk = FaultyDisk()
    manager = managed(path, surroundings(disk), count=2)
    if failing[0] == "/d1/":
        manager.get_or_create("u", 0, CONFIG, uuid.UUID(int=2))  # gives the second directory fewest logs
    disk.fail = lambda operation, path: (
        broken(operation, path)
        if operation == "create" and any(name in path for name in failing) and path.endswith(".log")
        else None
    )
    for _ in failing:
        with pytest.raises(DiskFailure):
            manager.get_or_create("t", 0, CONFIG, uuid.UUID(int=2))
    return manager


@pytest.mark.parametrize("failing", ["/d0/", "/d1/"])
def test_an_unfinished_log_becomes_a_stray_if_another_directory_has_the_log(tmp_path, failing):
    manager = made_while_devices_failed(tmp_path, failing)
    manager.get_or_create("t", 0, CONFIG, uuid.UUID(int=2)).append(batch(b"a"), leader_epoch=0)
    manager.close(clean=False)
    again = managed(tmp_path, count=2)
    again.load_all(config_of, lambda _: uuid.UUID(int=2))
    log = again.get("t", 0)
    assert (log.log_end_offset, failing in log.directory) == (1, False)
    (stray,) = tmp_path.glob("d?/t-*-stray")
    assert failing in str(stray)
    again.close(clean=False)


def test_one_of_two_unfinished_logs_is_kept(tmp_path):
    made_while_devices_failed(tmp_path, "/d0/", "/d1/").close(clean=False)
    assert len(list(tmp_path.glob("d?/t-0"))) == 2
    again = managed(tmp_path, count=2)
    again.load_all(config_of, lambda _: uuid.UUID(int=2))
    assert len(list(tmp_path.glob("d?/t-0"))) == 1
    log = again.get_or_create("t", 0, CONFIG, uuid.UUID(int=2))
    assert (log.topic_id, log.log_end_offset) == (uuid.UUID(int=2), 0)
    again.close(clean=False)
