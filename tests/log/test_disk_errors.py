"""Errors of the operating system: the real disk raises a DiskFailure that names the operation and the path."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.disk import DiskFailure, DiskFullError, RealDisk, RealFile


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    opened = RealDisk().open(str(tmp_path / "a"), create=True)
    opened.append(b"0123456789")
    return opened


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        (lambda disk, path: disk.open(f"{path}/missing"), "open"),
        (lambda disk, path: disk.list(f"{path}/missing"), "list"),
        (lambda disk, path: disk.size(f"{path}/missing"), "stat"),
        (lambda disk, path: disk.modified_ms(f"{path}/missing"), "stat"),
        (lambda disk, path: disk.space(f"{path}/missing"), "stat"),
        (lambda disk, path: disk.read(path), "read"),
        (lambda disk, path: disk.rename(f"{path}/missing", f"{path}/other"), "rename"),
        (lambda disk, path: disk.unlink(f"{path}/file/below"), "delete"),
        (lambda disk, path: disk.make_directory(f"{path}/file/below"), "make directory"),
        (lambda disk, path: disk.remove_directory(f"{path}/file"), "delete"),
        (lambda disk, path: disk.lock(f"{path}/link"), "open"),
    ],
)
def test_an_error_names_its_operation(tmp_path: Path, call: Callable[[RealDisk, str], object], operation: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(DiskFailure) as caught:
        call(RealDisk(), str(tmp_path))
    assert caught.value.operation == operation
    assert caught.value.path.startswith(str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"x"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_for_a_name_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "replace", failing(number))
    monkeypatch.setattr(os, "makedirs", lambda *_, **__: failing(number)())
    with pytest.raises(DiskFullError):
        RealDisk().rename(str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(DiskFullError):
        RealDisk().make_directory(str(tmp_path / "d"))


def test_a_file_is_closed_if_its_size_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, before = RealDisk(), len(list(Path("/dev/fd").iterdir()))
    with monkeypatch.context() as patched, pytest.raises(DiskFailure, match="stat of"):
        patched.setattr(os, "fstat", failing(errno.EIO))
        disk.open(str(tmp_path / "a"), create=True)
    assert (disk.open_files, len(list(Path("/dev/fd").iterdir()))) == (0, before)


def test_short_reads_are_continued(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, at: pread(descriptor, min(length, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(4, 100) == b"456789"


def test_a_file_that_is_shorter_than_it_was_is_a_failure(file: RealFile) -> None:
    os.truncate(file.path, 4)
    with pytest.raises(DiskFailure, match="shorter than it was"):
        file.read(0, 10)
    assert file.read(0, 4) == b"0123"


def test_a_read_error_is_a_failure(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    with pytest.raises(DiskFailure, match="read of"):
        file.read(0, 1)


def test_a_failed_cut_and_a_failed_sync_are_failures(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "ftruncate", failing(errno.EIO))
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(DiskFailure, match="truncate of"):
        file.truncate(3)
    with pytest.raises(DiskFailure, match="fsync of"):
        file.sync()
    assert file.size == 10


def test_a_write_of_zero_bytes_is_a_disk_failure(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, bytes(data)[:3], at) if at == 10 else 0
    )
    with pytest.raises(DiskFailure, match="takes no bytes"):
        file.append(b"more")
    assert (file.size, file.read(0, 100)) == (10, b"0123456789")


def test_a_failed_truncate_after_a_failed_append_is_a_disk_failure(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the cause is a full disk: the file is not in its former state."""
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    monkeypatch.setattr(os, "ftruncate", failing(errno.EIO))
    with pytest.raises(DiskFailure, match="truncate after a failed append") as caught:
        file.append(b"more")
    assert not isinstance(caught.value, DiskFullError)


def test_a_lock_of_another_process_keeps_this_one_out(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = (
        "import fcntl, os, sys\n"
        f"fcntl.lockf(os.open({path!r}, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert RealDisk().lock(path) is None
        holder.communicate()
    lock = RealDisk().lock(path)
    assert lock is not None
    lock.release()
