"""The real disk: its guarantees, and the behaviour of a log when a disk breaks them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kwire.log.disk import DiskFailure, DiskFullError, RealDisk, parts_default
from kwire.log.flushing import FlushJob
from kwire.protocol.error_codes import ErrorCode, KafkaError
from tests.log.faults import FaultyDisk, broken, full
from tests.log.support import batch, open_at, surroundings, values


def test_appends_reads_and_cuts(tmp_path):
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    assert (file.size, file.read(6, 100), file.read(3, 4)) == (11, b"world", b"lo w")
    file.truncate(5)
    file.append(b"!")
    file.sync()
    file.close()
    assert file.read(0, 10) == b"hello!"


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.append(b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, DiskFullError), (errno.EIO, DiskFailure)])
def test_a_failed_append_leaves_the_old_end(tmp_path, monkeypatch, number, kind):
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.append(b"before")
    real, calls = os.pwrite, []

    def half_then_fail(fd, data, at):
        calls.append(at)
        if len(calls) > 1:
            raise OSError(number, "no")
        return real(fd, bytes(data)[:4], at)

    monkeypatch.setattr(os, "pwrite", half_then_fail)
    with pytest.raises(DiskFailure) as caught:
        file.append(b"0123456789")
    assert type(caught.value) is kind
    assert file.size == 6
    assert (tmp_path / "a").read_bytes() == b"before"


def test_descriptors_are_bounded(tmp_path):
    disk = RealDisk(open_files_max=4)
    files = [disk.open(str(tmp_path / f"{index}"), create=True) for index in range(20)]
    for turn in range(3):
        for index, file in enumerate(files):
            file.append(b"%d.%d;" % (turn, index))
            assert disk.open_files <= 4
    assert all(file.read(0, 99) == b"0.%d;1.%d;2.%d;" % (index, index, index) for index, file in enumerate(files))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_open_files_are_closed_when_the_process_has_no_descriptors_left(tmp_path, monkeypatch, number):
    disk = RealDisk(open_files_max=10)
    files = [disk.open(str(tmp_path / f"{index}"), create=True) for index in range(4)]
    descriptors_left, opened = 2, os.open

    def scarce(path, flags, mode):
        if disk.open_files >= descriptors_left:
            raise OSError(number, "Too many open files")
        return opened(path, flags, mode)

    monkeypatch.setattr("os.open", scarce)
    disk.open(str(tmp_path / "another"), create=True)
    assert disk.open_files == 2
    for file in files:
        file.append(b"x")
    assert [file.read(0, 1) for file in files] == [b"x"] * 4
    descriptors_left = 0
    with pytest.raises(DiskFailure, match="Too many open files"):
        files[0].pin()
    assert disk.open_files == 0


@pytest.fixture
def scarce(tmp_path, monkeypatch):
    """Return a disk with two open files, which use all descriptors it may have."""
    disk = RealDisk()
    for name in "ab":
        disk.open(str(tmp_path / name), create=True)
    opened = os.open

    def open_if_any_is_left(path, flags, mode=0o777):
        if disk.open_files >= 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, flags, mode)

    monkeypatch.setattr("os.open", open_if_any_is_left)
    return disk


SHORT_OPENS = {
    "read": lambda disk, path: disk.read(f"{path}/a"),
    "sync_file": lambda disk, path: disk.sync_file(f"{path}/a"),
    "sync_directory": lambda disk, path: disk.sync_directory(path),
    "replace": lambda disk, path: disk.replace(f"{path}/c", b"x", sync=True),
}


@pytest.mark.parametrize("call", SHORT_OPENS.values(), ids=SHORT_OPENS)
def test_a_call_without_a_free_descriptor_closes_an_open_file(tmp_path, scarce, call):
    call(scarce, str(tmp_path))
    assert scarce.open_files == 1


@pytest.mark.parametrize("call", SHORT_OPENS.values(), ids=SHORT_OPENS)
def test_a_worker_that_finds_no_descriptor_closes_no_file_and_may_try_again(tmp_path, scarce, call):
    with ThreadPoolExecutor(1) as worker, pytest.raises(DiskFullError, match="Too many open files"):
        worker.submit(call, scarce, str(tmp_path)).result()
    assert scarce.open_files == 2
    scarce.open(str(tmp_path / "a")).close()
    with ThreadPoolExecutor(1) as worker:
        worker.submit(call, scarce, str(tmp_path)).result()


def test_a_failed_sync_of_a_path_is_final_whatever_the_disk_lacks(tmp_path, monkeypatch):
    def no_space(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(DiskFailure) as caught:
        RealDisk().sync_directory(str(tmp_path))
    assert not isinstance(caught.value, DiskFullError)


def test_a_disk_and_its_parts_have_no_more_descriptors_together_than_it_alone(tmp_path):
    count = 8
    disk = RealDisk(open_files_max=64)

    def fill(filled, name):
        for number in range(64):
            filled.open(str(tmp_path / f"{name}-{number}"), create=True)

    fill(disk, "before")
    parts = [disk.part(count) for _ in range(count)]
    fill(disk, "own")
    for index, part in enumerate(parts):
        fill(part, f"part{index}")
    assert [part.open_files for part in parts] == [4] * count
    assert disk.open_files + sum(part.open_files for part in parts) == 64
    for part in parts:
        disk.adopt(part)
    fill(disk, "after")
    assert disk.open_files == 64


@pytest.mark.parametrize(("limit", "count"), [(100_000, 64), (256, 16), (20, 8)])
def test_the_number_of_disk_parts_depends_on_the_descriptor_limit(monkeypatch, limit, count):
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert parts_default() == count
    assert RealDisk().part(count).open_files_max * count <= RealDisk().open_files_max // 2


def test_pinned_files_stay_open(tmp_path):
    disk = RealDisk(open_files_max=2)
    pinned = disk.open(str(tmp_path / "pinned"), create=True)
    pinned.pin()
    descriptor = pinned._descriptor
    for index in range(5):
        disk.open(str(tmp_path / f"{index}"), create=True)
    pinned.close()
    assert pinned._descriptor == descriptor
    pinned.unpin()
    pinned.close()
    assert pinned._descriptor == -1


def test_a_flush_that_finds_no_descriptor_leaves_no_file_pinned(tmp_path, monkeypatch):
    disk = RealDisk()
    files = [disk.open(str(tmp_path / name), create=True) for name in "ab"]
    files[1].close()

    def used_up(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("os.open", used_up)
        files[0].pin()  # an unpinned file would be closed to open the other one
        with pytest.raises(DiskFullError, match="Too many open files"):
            FlushJob(disk, files, [], 1, 0, 0, 0)
        files[0].unpin()
    assert [file.pins for file in files] == [0, 0]


def test_replace_is_all_or_nothing(tmp_path, monkeypatch):
    disk, path = RealDisk(), str(tmp_path / "a")
    disk.replace(path, b"old", sync=True)

    def fail(*_):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(DiskFailure):
        disk.replace(path, b"new", sync=True)
    assert disk.read(path) == b"old"


def test_directories_and_names(tmp_path):
    disk = RealDisk()
    nested = str(tmp_path / "a" / "b")
    disk.make_directory(nested)
    disk.make_directory(nested)
    disk.replace(f"{nested}/z", b"1", sync=False)
    disk.replace(f"{nested}/y", b"22", sync=False)
    assert disk.list(nested) == ["y", "z"]
    assert (disk.size(f"{nested}/y"), disk.is_directory(nested), disk.is_directory(f"{nested}/y")) == (2, True, False)
    disk.rename(f"{nested}/y", f"{nested}/x")
    disk.unlink(f"{nested}/z")
    disk.unlink(f"{nested}/z")
    assert disk.list(nested) == ["x"]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("x")
    (tmp_path / "a" / "link").symlink_to(outside)
    disk.remove_directory(str(tmp_path / "a"))
    disk.remove_directory(str(tmp_path / "a"))
    assert (outside / "keep").exists()
    assert not disk.exists(nested)


def test_a_symbolic_link_to_a_directory_is_treated_as_a_directory(tmp_path):
    """The link may lead to another volume; the contents of its target are removed with it."""
    disk = RealDisk()
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "link"
    link.symlink_to(elsewhere)
    assert not disk.is_directory(str(link))
    elsewhere.mkdir()
    (elsewhere / "f").write_text("x")
    assert disk.is_directory(str(link))
    disk.remove_directory(str(link))
    assert not disk.exists(str(link))
    assert disk.list(str(elsewhere)) == []


def test_files_are_private(tmp_path):
    disk = RealDisk()
    disk.make_directory(str(tmp_path / "d"))
    disk.open(str(tmp_path / "d" / "f"), create=True)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "f").stat().st_mode & 0o777 == 0o600


def test_a_second_lock_attempt_in_this_process_leaks_no_descriptors(tmp_path):
    path = str(tmp_path / ".lock")
    lock = RealDisk().lock(path)
    assert lock is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [RealDisk().lock(path) for _ in range(20)] == [None] * 20
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    lock.release()


def test_only_one_of_two_concurrent_threads_gets_a_lock(tmp_path):
    disk = RealDisk()
    with ThreadPoolExecutor(2) as threads:
        for number in range(500):
            path = str(tmp_path / str(number))
            together = threading.Barrier(2)

            def ask(path=path, together=together):
                together.wait(60)
                return disk.lock(path)

            locks = [each.result() for each in [threads.submit(ask), threads.submit(ask)]]
            (lock,) = [each for each in locks if each is not None]
            assert disk.lock(path) is None
            lock.release()


def test_a_lock_excludes_this_process_and_others_until_it_is_released(tmp_path):
    path = str(tmp_path / ".lock")
    lock = RealDisk().lock(path)
    assert lock is not None
    assert RealDisk().lock(path) is None
    script = f"from kwire.log.disk import RealDisk; print(RealDisk().lock({path!r}) is None)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"
    lock.release()
    again = RealDisk().lock(path)
    assert again is not None
    again.release()


# Log behaviour on a bad disk


def test_a_full_disk_fails_only_the_append(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk))
    log.append(batch(b"a"), leader_epoch=0)
    disk.fail = lambda operation, path: full(operation, path) if operation == "append" else None
    with pytest.raises(KafkaError) as caught:
        log.append(batch(b"b"), leader_epoch=0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(log) == [b"a"]
    disk.fail = lambda operation, path: None
    assert log.append(batch(b"c"), leader_epoch=0).base_offset == 1
    log.close(clean=False)
    assert values(open_at(tmp_path)) == [b"a", b"c"]


@pytest.mark.parametrize("operation", ["append", "read", "fsync"])
def test_any_other_failure_takes_the_log_offline_for_good(tmp_path, operation):
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk))
    log.append(batch(b"a"), leader_epoch=0)
    reported: list[DiskFailure] = []
    log.health.on_failure = reported.append
    disk.fail = lambda found, path: broken(found, path) if found == operation else None
    with pytest.raises(DiskFailure):
        if operation == "append":
            log.append(batch(b"b"), leader_epoch=0)
        elif operation == "read":
            log.read(0, 100)
        else:
            log.flush()
    disk.fail = lambda found, path: None
    for call in (lambda: log.append(batch(b"c"), leader_epoch=0), lambda: log.read(0, 100), log.flush, log.roll):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(reported) == 1
    assert log.recovery_point == 0


def test_a_lack_of_descriptors_takes_no_log_offline(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk))
    log.append(batch(b"a"), leader_epoch=0)
    disk.fail = lambda operation, path: (
        full(operation, path) if operation == "read" or (operation, path) == ("fsync", log.directory) else None
    )
    for call in (lambda: log.read(0, 100), log.flush):
        with pytest.raises(DiskFullError):
            call()
    assert (log.failure, log.recovery_point) == (None, 0)
    disk.fail = lambda operation, path: None
    assert values(log) == [b"a"]
    disk.operations.clear()
    log.flush()
    assert log.recovery_point == 1
    assert ("fsync", log.directory) in disk.operations


def test_a_failed_fsync_is_not_tried_again(tmp_path):
    disk = FaultyDisk()
    log = open_at(tmp_path, world=surroundings(disk))
    log.append(batch(b"a"), leader_epoch=0)
    disk.fail = lambda operation, path: broken(operation, path) if operation == "fsync" else None
    with pytest.raises(DiskFailure):
        log.flush()
    assert [operation for operation, _ in disk.operations].count("fsync") == 1
