"""Disk on which directories of one topic find no space."""

from __future__ import annotations

import errno

from kwire.log.disk import DiskFullError, RealDisk


class FullDisk(RealDisk):
    """A disk without space for a directory of topic t."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = True
        self.tried = 0

    def make_directory(self, path: str) -> None:
        if "/t-" in path and self.is_full:
            self.tried += 1
            raise DiskFullError("make directory", path, OSError(errno.ENOSPC, "no space"))
        super().make_directory(path)
