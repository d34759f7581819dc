"""Swap of a cleaned segment into the log, in place of its sources.

A crash may undo any of the renames since the last sync of the directory. After a crash at any point, either the old
segments or the new one must exist:

1. decide(), on the loop: .cleaned -> .swap. While any .cleaned file is left, recovery removes both kinds and keeps the
   old segments. Once all files are .swap, recovery replaces every segment that the new one's offsets cover. From then
   on, code that truncates or removes sources must first undo the decision, or a crash would bring their records back.
2. sync(), on a worker: the decision is durable.
3. replace(), on the loop: the sources -> .deleted; the log reads from the .swap files.
4. sync(), on a worker: the removal of the sources is durable.
5. drop_suffix(), on the loop: .swap -> no suffix. Only now may the name that proves the swap be changed.
"""

from __future__ import annotations

from kwire.log.compaction.plan import CleanedGroup
from kwire.log.compaction.writer import cleaned_paths
from kwire.log.disk import Disk, DiskFailure, DiskFullError
from kwire.log.files import CLEANED_SUFFIX, SWAP_SUFFIX, PendingDeletion, rename_deleted
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import Segment


class Swap:
    """Swap of one group's cleaned segment. It is valid while the log's truncation count is that of the round's start.

    The steps are called in order; each may raise DiskFailure.
    """

    def __init__(self, log: PartitionLog, disk: Disk, group: CleanedGroup, truncations: int) -> None:
        self._log = log
        self._truncations = truncations
        self._disk = disk
        self._directory = log.directory
        self._base_offset = group.sources[0]
        self._sources = _find(log, group)
        self._cleaned: Segment | None = None
        self._is_undone = False

    def is_overtaken(self) -> bool:
        """Return True if sources were truncated, deleted or moved meanwhile, so that the result must be discarded."""
        log = self._log
        if log.failure is not None or log.directory != self._directory or not self._sources:
            return True
        if self._is_undone or log.offsets.truncations != self._truncations:
            return True  # a source may be the same segment with other records
        current = log.segments.from_offset(self._base_offset)
        return current[: len(self._sources)] != self._sources or current[-1] in self._sources

    def decide(self) -> None:
        self._log.segments.before_removal = self._undo
        for path in cleaned_paths(self._directory, self._base_offset):
            if self._disk.exists(path):
                self._disk.rename(path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)

    def _undo(self) -> None:
        self._is_undone = True
        self.discard()
        self._disk.sync_directory(self._directory)

    def replace(self, now_ms: int) -> PendingDeletion:
        """Make the log read from the new segment, and return the deletion of the old files."""
        log = self._log
        self._cleaned = Segment(  # first: remove nothing before its replacement is open
            self._disk, self._directory, self._base_offset, create=False, created_ms=now_ms, suffix=SWAP_SUFFIX
        )
        log.segments.before_removal = None
        paths = [path for source in self._sources for path in self._rename_deleted(source)]
        for source in self._sources[1:]:
            log.snapshots.remove(source.base_offset)
        log.segments.replace(self._sources, self._cleaned)
        return PendingDeletion(log.config.file_delete_delay_ms, paths)

    def _rename_deleted(self, source: Segment) -> list[str]:
        source.close()
        paths = [path for path in source.paths() if self._disk.exists(path)]
        return [rename_deleted(self._disk, path) for path in paths]

    def sync(self) -> None:
        self._disk.sync_directory(self._directory)

    def drop_suffix(self) -> None:
        """Remove the suffix of the new segment, unless the segment was removed meanwhile."""
        if self._cleaned is not None and self._log.directory == self._directory and self._cleaned in self._log.segments:
            try:
                self._cleaned.drop_suffix()
            except DiskFullError as full:  # the sources are gone, so the swap cannot be undone
                raise DiskFailure(full.operation, full.path, full.error) from full

    def discard(self) -> None:
        """Remove the files of this group after it was overtaken before replace().

        Raises DiskFailure; files that are left would replace the log's segments after a crash.
        """
        try:
            for path in cleaned_paths(self._directory, self._base_offset):  # the .log first, which would prove a swap
                self._disk.unlink(path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
                self._disk.unlink(path)
        except DiskFullError as full:  # some file systems report this for a removal
            raise DiskFailure(full.operation, full.path, full.error) from full
        self._log.segments.before_removal = None


def _find(log: PartitionLog, group: CleanedGroup) -> list[Segment]:
    by_offset = {segment.base_offset: segment for segment in log.segments}
    found = [by_offset.get(offset) for offset in group.sources]
    return [segment for segment in found if segment is not None] if None not in found else []
