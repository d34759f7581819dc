"""Disk in memory: it satisfies the contract of kwire.log.disk, and behaves like the real disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.log.disk import Disk, DiskFailure, RealDisk
from tests.crash.disk import RecordingDisk
from tests.crash.journal import Choices, Journal


def do_things(disk: Disk, root: str, random_source: random.Random) -> list[object]:
    """Run random operations of every kind on a disk and return their results."""
    said: list[object] = []
    disk.make_directory(f"{root}/a/b")
    file = disk.open(f"{root}/a/f", create=True)
    for _ in range(60):
        name = f"{root}/a/{random_source.choice('xyz')}"
        match random_source.randrange(9):
            case 0:
                disk.replace(
                    name, random_source.randbytes(random_source.randrange(20)), sync=bool(random_source.randrange(2))
                )
            case 1:
                disk.unlink(name)
            case 2 if disk.exists(name):
                disk.rename(name, f"{root}/a/{random_source.choice('xyz')}")
            case 3:
                file.append(random_source.randbytes(10))
            case 4:
                file.truncate(random_source.randrange(file.size + 1))
                file.sync()
            case 5:
                said.append(file.read(random_source.randrange(20), 15))
            case 6:
                file.close()
            case 7 if disk.exists(name):
                said.append((disk.size(name), disk.read(name), disk.is_directory(name)))
                disk.sync_file(name)
            case _:
                said.append((disk.list(f"{root}/a"), file.size))
    return said


@pytest.mark.parametrize("seed", range(10))
def test_the_recording_disk_behaves_like_the_real_disk(tmp_path: Path, seed: int) -> None:
    disk = RecordingDisk({"root": {}})
    in_memory = do_things(disk, "/root", random.Random(seed))
    assert in_memory == do_things(RealDisk(), str(tmp_path), random.Random(seed))
    disk.remove_directory("/root/a")
    assert disk.list("/root") == []


@pytest.mark.parametrize("seed", range(10))
def test_nothing_lost_is_what_was_there_and_everything_lost_is_what_was_synced(seed: int) -> None:
    disk = RecordingDisk({"root": {"old": b"old"}})
    do_things(disk, "/root", random.Random(seed))
    journal = Journal({"root": {"old": b"old"}})
    journal.replay(disk.operations)
    assert journal.state(Choices()) == disk.tree()
    for path in ("/root/a/f", *(f"/root/a/{name}" for name in disk.list("/root/a") if name in "xyz")):
        disk.sync_file(path)
    for path in ("/root/a/b", "/root/a", "/root", ""):
        disk.sync_directory(path)
    journal = Journal({"root": {"old": b"old"}})
    journal.replay(disk.operations)
    assert [tree for _, tree in journal.states(limit=10, seed=0)] == [disk.tree()]


def test_missing_files_raise_the_errors_of_the_real_disk() -> None:
    disk = RecordingDisk()
    with pytest.raises(FileNotFoundError):
        disk.read("/missing")
    for call in (disk.open, disk.list, disk.size, disk.sync_file, disk.sync_directory):
        with pytest.raises(DiskFailure):
            call("/missing")


def test_a_lock_is_held_until_its_process_ends() -> None:
    disk = RecordingDisk()
    lock = disk.lock("/.lock")
    assert lock is not None
    assert disk.lock("/.lock") is None
    lock.release()
    assert disk.lock("/.lock") is not None
    disk.kill()
    assert disk.lock("/.lock") is not None
