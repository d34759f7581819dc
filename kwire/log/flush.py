"""The part of a flush that waits for the disk, cut out so that a worker can do it."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.log.disk import Disk, DiskFailure, DiskFile


class FlushJob:
    """Files and directories to sync up to end_offset. Made and released on the loop; run() may be anywhere."""

    def __init__(
        self, disk: Disk, files: Sequence[DiskFile], paths: Sequence[str], end_offset: int, epochs_version: int
    ) -> None:
        self._disk = disk
        self._files = files
        self.paths = paths
        self.end_offset = end_offset
        self.epochs_version = epochs_version
        self.failure: DiskFailure | None = None
        for file in files:
            file.pin()

    def run(self) -> None:
        """Sync everything; the first failure ends it and is kept: repeating a failed fsync would prove nothing."""
        try:
            for file in self._files:
                file.sync()
            for path in self.paths:
                if self._disk.is_directory(path):
                    self._disk.sync_directory(path)
                else:
                    self._disk.sync_file(path)
        except DiskFailure as failure:
            self.failure = failure

    def release(self) -> None:
        for file in self._files:
            file.unpin()
        self._files = ()
