"""Command `kwire server` with a disk that records its changes in a separate file.

    python -m tests.crash.watched_server FILE [arguments of kwire server]

A line is a kind and a path; the first line is the process id. Kinds are those of tests/crash/system_calls.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kwire.cli import main as kwire
from kwire.log.disk import Data, RealDisk, RealFile
from kwire.log.file_lock import RealLock
from kwire.server.node import runtime

REPORTED = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if __name__ == "__main__" else -1


def tell(kind: str, path: str) -> None:
    os.write(REPORTED, f"{kind}\t{path}\n".encode())


class WatchedFile(RealFile):
    """File that records its changes."""

    __slots__ = ()

    def append(self, *parts: Data) -> None:
        tell("write", self.path)
        super().append(*parts)

    def truncate(self, size: int) -> None:
        tell("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        tell("sync", self.path)
        super().sync()


class WatchedDisk(RealDisk):
    """Disk that records its changes, one for each system call."""

    def part(self, count: int) -> WatchedDisk:
        return self

    def adopt(self, part: object) -> None:
        """Do nothing: the parts of a broker share the disk."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        if create:
            tell("create", path)
        file = super().open(path, create=create)
        self.remove_open(file)
        watched = WatchedFile(self, path, file._descriptor, file.size)
        self.add_open(watched)
        return watched

    def replace(self, path: str, data: Data, *, sync: bool) -> None:
        tell("create", f"{path}.tmp")
        if len(data):
            tell("write", f"{path}.tmp")
        if sync:
            tell("sync", f"{path}.tmp")
        tell("rename", f"{path}.tmp")
        super().replace(path, data, sync=sync)

    def rename(self, old: str, new: str) -> None:
        tell("rename", old)
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if self.exists(path):
            tell("remove", path)
        super().unlink(path)

    def make_directory(self, path: str) -> None:
        made = [str(each) for each in (Path(path), *Path(path).parents) if not each.exists()]
        for each in made:
            tell("make", each)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        names = self.list(path) if self.is_directory(path) else []
        for name in names:
            if not self.is_directory(f"{path}/{name}"):
                tell("remove", f"{path}/{name}")
        if self.is_directory(path):
            tell("remove", path)
        super().remove_directory(path)

    def sync_file(self, path: str) -> None:
        tell("sync", path)
        super().sync_file(path)

    def sync_directory(self, path: str) -> None:
        tell("sync", path)
        super().sync_directory(path)

    def lock(self, path: str) -> RealLock | None:
        tell("create", path)
        return super().lock(path)


def main() -> None:
    tell("process", str(os.getpid()))
    vars(runtime)["RealDisk"] = WatchedDisk
    kwire(["server", *sys.argv[2:]], prog_name="kwire")


if __name__ == "__main__":
    main()
