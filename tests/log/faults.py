"""A disk that fails on request; all else is done by the real disk."""

from __future__ import annotations

import errno
from collections.abc import Callable

from kwire.log.disk import Data, DiskFailure, DiskFullError, RealDisk, RealFile
from kwire.log.file_lock import RealLock


class FaultyDisk(RealDisk):
    """A disk that raises the result of `fail` for an operation and path, just before the operation."""

    def __init__(self) -> None:
        super().__init__(open_files_max=64)
        self.operations: list[tuple[str, str]] = []
        self.fail: Callable[[str, str], DiskFailure | None] = lambda operation, path: None

    def part(self, count: int) -> FaultyDisk:
        return self

    def adopt(self, part: object) -> None:
        """Do nothing: the parts of a broker share the disk and its faults."""

    def check(self, operation: str, path: str) -> None:
        self.operations.append((operation, path))
        failure = self.fail(operation, path)
        if failure is not None:
            raise failure

    def open(self, path: str, *, create: bool = False) -> RealFile:
        if create and not self.exists(path):
            self.check("create", path)
        file = super().open(path, create=create)
        self.remove_open(file)
        watched = WatchedFile(self, path, file._descriptor, file.size)
        self.add_open(watched)
        return watched

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        self.check("replace", path)
        super().replace(path, data, sync=sync)

    def lock(self, path: str) -> RealLock | None:
        self.check("lock", path)
        return super().lock(path)

    def is_directory(self, path: str) -> bool:
        self.check("stat", path)
        return super().is_directory(path)

    def list(self, directory: str) -> list[str]:
        self.check("list", directory)
        return super().list(directory)

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        super().unlink(path)

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        super().rename(old, new)

    def sync_file(self, path: str) -> None:
        self.check("fsync", path)
        super().sync_file(path)

    def sync_directory(self, path: str) -> None:
        self.check("fsync", path)
        super().sync_directory(path)


class WatchedFile(RealFile):
    """A file on a FaultyDisk."""

    def append(self, *parts: Data) -> None:
        self._watch("append")
        super().append(*parts)

    def read(self, position: int, length: int) -> bytes:
        self._watch("read")
        return super().read(position, length)

    def sync(self) -> None:
        self._watch("fsync")
        super().sync()

    def truncate(self, size: int) -> None:
        self._watch("truncate")
        super().truncate(size)

    def _watch(self, operation: str) -> None:
        assert isinstance(self._disk, FaultyDisk)
        self._disk.check(operation, self.path)


def full(operation: str, path: str) -> DiskFailure:
    return DiskFullError(operation, path, OSError(errno.ENOSPC, "No space left on device"))


def broken(operation: str, path: str) -> DiskFailure:
    return DiskFailure(operation, path, OSError(errno.EIO, "Input/output error"))
