"""File system access: the Disk interface, which tests may replace, and its implementation for real files.

All files of the log are accessed through a Disk, so that tests can use a faulty one. An implementation guarantees:

- append either stores all bytes at the end of the file or leaves the file at its old size and raises;
- a failed sync is final: the file's pages may be lost, so a successful retry would prove nothing;
- replace leaves either the old or the new content, whatever happens;
- DiskFullError means no space or no file descriptor, and an unchanged file; DiskFailure is any other failure.

The event loop's thread makes the calls. A worker may call sync() and read() of a pinned file, whole-file calls
(replace, unlink, remove_directory, sync_file, sync_directory), space(), and every method of a part() that it received.
"""

# Paths are plain strings in this module, because thousands of them are created at start.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH116, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections import OrderedDict
from threading import get_ident
from typing import Protocol

from kwire.log import file_lock
from kwire.log.file_lock import RealLock
from kwire.log.page_cache import is_cached

Data = bytes | bytearray | memoryview

OPEN_FILES_MAX: int = 10_000
"""Upper bound of the default: half of a usual machine's file descriptors; the rest is for connections."""
PART_FILES_MIN: int = 4
"""Fewest open files of one part of a disk; a log has three for each segment."""
PARTS_MAX: int = 64
"""Largest number of parts of a disk that are used at the same time, whatever the number of open files."""
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class DiskFailure(Exception):  # noqa: N818 a failure is what it is called everywhere
    """Failure of a file operation, after which the log directory cannot be trusted."""

    def __init__(self, operation: str, path: str, error: OSError) -> None:
        super().__init__(f"{operation} of {path} failed: {error.strerror or error}")
        self.operation = operation
        self.path = path
        self.error = error


class DiskFullError(DiskFailure):
    """Full device, or no file descriptor left; the file is unchanged and the call may be retried."""


class DiskFile(Protocol):
    """File that is appended to at its end."""

    path: str
    size: int
    """Bytes in the file; maintained by the implementation."""
    cuts: int
    """Number of truncations and final closes; data that were read before may be outdated."""

    def append(self, *parts: Data) -> None:
        """Store all parts at the end, one after the other."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""

    def is_cached(self, position: int, length: int) -> bool:
        """Return True if a read does not have to wait for the device; only some bytes of the range are sampled."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def sync(self) -> None:
        """Make content and size durable."""

    def pin(self) -> None:
        """Keep the file descriptor open until unpin, so that a worker may call sync or read."""

    def unpin(self) -> None:
        """Undo one pin."""

    def close(self) -> None:
        """Close the file descriptor; the next use opens the file again."""


class DiskLock(Protocol):
    """Lock on a directory, held until it is released or the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """File system."""

    def part(self, count: int) -> Disk:
        """Return a disk with the same files for one worker; no other thread closes the files that it opens.

        `count` parts are used at the same time, and together may have half of the open files.
        """

    def adopt(self, part: Disk) -> None:
        """Merge a part into this disk; from now on only this disk's thread uses the part's files."""

    def open(self, path: str, *, create: bool = False) -> DiskFile: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool:
        """Return True for a directory or a symbolic link to one, by which an operator may use another volume."""

    def list(self, directory: str) -> list[str]:
        """Return the names in the directory, sorted."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def space(self, path: str) -> tuple[int, int]:
        """Return (total, usable) bytes of the device that holds path."""

    def read(self, path: str) -> bytes:
        """Return the whole file. Raises FileNotFoundError if it does not exist."""

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        """Write a whole file atomically; with sync, durably.

        If the sync fails for lack of a file descriptor, the file may already have the new content.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; for a longer name, the directory may lack space."""

    def unlink(self, path: str) -> None:
        """Remove a file; do nothing if it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; do nothing if it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory and its contents; symbolic links are removed, never followed."""

    def sync_file(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> DiskLock | None:
        """Take an exclusive lock on a file, created if missing; return None if another process holds the lock."""


def open_files_default() -> int:
    """Return the number of file descriptors for segments: half of the process's limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(OPEN_FILES_MAX, soft // 2 if soft > 0 else OPEN_FILES_MAX))


def parts_default() -> int:
    """Return how many parts of a disk may be used at the same time; each needs some of the open files."""
    return min(PARTS_MAX, open_files_default() // 2 // PART_FILES_MIN)


class RealFile:
    """DiskFile whose file descriptor is closed when too many files are open, and opened again on its next use."""

    __slots__ = ("_closes_when_unpinned", "_descriptor", "_disk", "cuts", "path", "pins", "size", "touched")

    def __init__(self, disk: RealDisk, path: str, descriptor: int, size: int) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self.path = path
        self.size = size
        self.cuts = 0
        self.touched = True
        self.pins = 0
        self._closes_when_unpinned = False

    def append(self, *parts: Data) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
        self.touched = True
        try:
            if len(parts) == 1:
                size = len(parts[0])
                written = os.pwrite(descriptor, parts[0], self.size)
            else:
                size = sum(map(len, parts))
                written = os.pwritev(descriptor, parts, self.size)
            if written != size:
                self._append_rest(descriptor, memoryview(b"".join(parts)), written)
        except OSError as error:
            self._undo_append(descriptor, error)
            raise _failure("append", self.path, error) from error
        self.size += size

    def _append_rest(self, descriptor: int, data: memoryview, written: int) -> None:
        while written < len(data):
            count = os.pwrite(descriptor, data[written:], self.size + written)
            if count == 0:
                raise OSError(errno.EIO, "the file takes no bytes")
            written += count

    def _undo_append(self, descriptor: int, cause: OSError) -> None:
        """Truncate the file to its old size after a failed append, so that the next append starts there."""
        self.cuts += 1
        try:
            os.ftruncate(descriptor, self.size)
        except OSError as error:
            raise DiskFailure("truncate after a failed append", self.path, error) from cause

    def read(self, position: int, length: int) -> bytes:
        descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
        self.touched = True
        try:
            data = os.pread(descriptor, length, position)
            while len(data) < length and position + len(data) < self.size:
                rest = os.pread(descriptor, length - len(data), position + len(data))
                if not rest:
                    raise OSError(errno.EIO, "the file is shorter than it was")
                data += rest
        except OSError as error:
            raise DiskFailure("read", self.path, error) from error
        return data

    def is_cached(self, position: int, length: int) -> bool:
        return is_cached(self._descriptor if self._descriptor >= 0 else self._reopen(), position, length)

    def truncate(self, size: int) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            raise DiskFailure("truncate", self.path, error) from error
        self.size = size
        self.cuts += 1

    def sync(self) -> None:
        descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise DiskFailure("fsync", self.path, error) from error

    def pin(self) -> None:
        if self._descriptor < 0:
            self._reopen()
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1
        if self._closes_when_unpinned and self.pins == 0:
            self.release_descriptor()

    def close(self) -> None:
        self.cuts += 1
        self.release_descriptor()

    def release_descriptor(self) -> None:
        """Close the file descriptor now, or when the last pin is released; the next use opens the file again."""
        self._closes_when_unpinned = self.pins > 0
        if self._descriptor >= 0 and self.pins == 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._disk.remove_open(self)
            os.close(descriptor)

    def _reopen(self) -> int:
        self._descriptor = self._disk.descriptor(self.path, os.O_RDWR)
        self._disk.add_open(self)
        return self._descriptor


class RealDisk:
    """File system of this machine. When too many files are open, the least recently used ones are closed."""

    def __init__(self, open_files_max: int | None = None) -> None:
        self.open_files_max = open_files_default() if open_files_max is None else open_files_max
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self._parts_files = 0
        """Open files that are reserved for parts."""
        self._thread = 0
        """Id of the thread that opens files, and therefore the only one that may close them."""

    def part(self, count: int) -> RealDisk:
        part = RealDisk(max(PART_FILES_MIN, self.open_files_max // 2 // count))
        self._parts_files += part.open_files_max
        return part

    def adopt(self, part: Disk) -> None:
        assert isinstance(part, RealDisk)
        self._parts_files -= part.open_files_max
        self._open.update(part._open)  # noqa: SLF001 the class is its own
        part._open = self._open  # noqa: SLF001
        self._thread = part._thread = get_ident()  # noqa: SLF001
        part.open_files_max = self.open_files_max
        self._close_unused(self._own_files_max + 1)

    @property
    def _own_files_max(self) -> int:
        """Open files of this disk itself, without those reserved for parts."""
        return max(1, self.open_files_max - self._parts_files)

    @property
    def open_files(self) -> int:
        return len(self._open)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        descriptor = self.descriptor(path, os.O_RDWR | (os.O_CREAT if create else 0))
        try:
            size = os.fstat(descriptor).st_size
        except OSError as error:
            os.close(descriptor)
            raise DiskFailure("stat", path, error) from error
        file = RealFile(self, path, descriptor, size)
        self.add_open(file)
        return file

    def descriptor(self, path: str, flags: int) -> int:
        """Open a file, after closing others if too many are open."""
        self._close_unused(self._own_files_max)
        self._thread = get_ident()
        try:
            return self._open_path(path, flags | os.O_NOFOLLOW)
        except OSError as error:
            raise _failure("open", path, error) from error

    def _open_path(self, path: str, flags: int) -> int:
        """Return a file descriptor; if none is left, close other files first, except in a worker."""
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, 0o600)
            except OSError as error:
                open_files = len(self._open)
                if error.errno in _NO_DESCRIPTOR and get_ident() == self._thread:
                    self._close_unused(open_files)
                if len(self._open) == open_files:
                    raise

    def add_open(self, file: RealFile) -> None:
        self._open[file] = None

    def remove_open(self, file: RealFile) -> None:
        self._open.pop(file, None)

    def _close_unused(self, open_files_max: int) -> None:
        """Close files that were not used since the previous sweep; keep pinned ones."""
        tries = 2 * len(self._open)
        while len(self._open) >= open_files_max and tries > 0:
            tries -= 1
            file = next(iter(self._open))
            if file.touched or file.pins:
                file.touched = False
                self._open.move_to_end(file)
            else:
                file.release_descriptor()

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise DiskFailure("stat", path, error) from error

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except OSError as error:
            raise _failure("list", directory, error) from error

    def size(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise DiskFailure("stat", path, error) from error

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise DiskFailure("stat", path, error) from error

    def space(self, path: str) -> tuple[int, int]:
        try:
            device = os.statvfs(path)
        except OSError as error:
            raise DiskFailure("stat", path, error) from error
        return device.f_blocks * device.f_frsize, device.f_bavail * device.f_frsize

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb", opener=self._open_path) as file:
                return file.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _failure("read", path, error) from error

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        try:
            descriptor = self._open_path(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(descriptor)
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):  # free the space of the incomplete file
                os.unlink(temporary)
            raise _failure("write", path, error) from error
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(old, new)
        except OSError as error:
            raise _failure("rename", old, error) from error

    def unlink(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise DiskFailure("delete", path, error) from error

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise _failure("make directory", path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    self.remove_directory(entry.path)
                else:
                    os.unlink(entry.path)
            if stat.S_ISLNK(os.lstat(path).st_mode):
                os.unlink(path)
            else:
                os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure("delete", path, error) from error

    def sync_file(self, path: str) -> None:
        self._sync_path(path, os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        self._sync_path(path, os.O_RDONLY | os.O_DIRECTORY)

    def _sync_path(self, path: str, flags: int) -> None:
        try:
            descriptor = self._open_path(path, flags)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:  # only the failed open may be retried: a failed fsync is final
            raise (DiskFullError if error.errno in _NO_DESCRIPTOR else DiskFailure)("fsync", path, error) from error

    def lock(self, path: str) -> RealLock | None:
        try:
            return file_lock.acquire(path)
        except OSError as error:
            raise _failure("open", path, error) from error


def _failure(operation: str, path: str, error: OSError) -> DiskFailure:
    is_retriable = error.errno in (errno.ENOSPC, errno.EDQUOT, *_NO_DESCRIPTOR)
    return (DiskFullError if is_retriable else DiskFailure)(operation, path, error)
