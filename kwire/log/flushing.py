"""Flush of a log: collect what to write, sync it (which a worker may do), and record the result."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.log.disk import Disk, DiskFailure, DiskFile
from kwire.log.log_state import LogState


class FlushJob:
    """Files and directories to sync up to end_offset. Created and released on the loop; run() may run anywhere."""

    def __init__(
        self,
        disk: Disk,
        files: Sequence[DiskFile],
        paths: Sequence[str],
        number: int,
        end_offset: int,
        epochs_version: int,
        truncations: int,
    ) -> None:
        self._disk = disk
        self._files = files
        self.paths = paths
        self.number = number
        self.end_offset = end_offset
        self.epochs_version = epochs_version
        self.truncations = truncations
        self.failure: DiskFailure | None = None
        pinned = 0
        try:
            for file in files:
                file.pin()
                pinned += 1
        except DiskFailure:
            for file in files[:pinned]:
                file.unpin()
            raise

    def run(self) -> None:
        """Sync everything until the first failure, which is stored; a repeated fsync would prove nothing."""
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


def begin(log: LogState, *, pins: bool) -> FlushJob:
    """Write pending entries and return a job with everything that must be synced. Raises DiskFullError, DiskFailure.

    With `pins`, the files stay open, because they may be renamed or removed during the flush. A log has several files
    for each segment, so a log that is being closed does not pin them: its files stay, and are opened one at a time.
    """
    files: list[DiskFile] = []
    # Also if only names are not synced: the segments are new, or a recovery may have changed their indexes.
    is_behind = log.log_end_offset > log.recovery_point or log.directory in log.unsynced_paths
    for segment in log.segments.from_offset(log.recovery_point):
        has_entries = segment.has_pending_entries
        indexes = segment.write_indexes()
        if is_behind:
            files.append(segment.file)
        if is_behind or has_entries:
            files += indexes
        if segment.transaction_index.has_new_name:
            segment.transaction_index.has_new_name = False
            log.unsynced_paths.add(log.directory)
    epochs = log.leader_epochs
    epochs.write()
    number, unsynced = log.unsynced_paths.begin()
    paths = sorted(unsynced - {log.directory})
    if epochs.version != epochs.durable_version:
        paths.append(epochs.path)
    if paths or unsynced:
        paths.append(log.directory)  # last: a name must not become durable before its content
    if not pins:
        paths = [*(file.path for file in files), *paths]
        files = []
    return FlushJob(log.disk, files, paths, number, log.log_end_offset, epochs.version, log.offsets.truncations)
