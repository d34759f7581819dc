"""Writer of one .cleaned segment with its indexes."""

from __future__ import annotations

import errno
from typing import Final

from kwire.log.compaction.plan import RoundPlan
from kwire.log.config import LogConfig
from kwire.log.disk import Disk, DiskFullError
from kwire.log.files import CLEANED_SUFFIX, SEGMENT_SUFFIXES
from kwire.log.segment import Segment, segment_name
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.records import BatchHeader, read_header

WRITE_BYTES: Final = 1024 * 1024
"""Bytes that are collected before they are written."""


def cleaned_paths(directory: str, base_offset: int) -> list[str]:
    """Return the paths of the files that a writer may create."""
    return [f"{directory}/{segment_name(base_offset)}{suffix}{CLEANED_SUFFIX}" for suffix in SEGMENT_SUFFIXES]


class SegmentWriter:
    """Segment that is being written."""

    def __init__(self, disk: Disk, plan: RoundPlan, base_offset: int, *, has_transactions: bool) -> None:
        for path in cleaned_paths(plan.directory, base_offset):
            disk.unlink(path)
        self._segment = Segment(
            disk, plan.directory, base_offset, create=True, created_ms=plan.now_ms, suffix=CLEANED_SUFFIX
        )
        if has_transactions:
            # Create it even if it stays empty: it replaces an old one, whichever renames a crash undoes.
            disk.open(self._segment.transaction_index.path, create=True).close()
        self._config = LogConfig(
            segment_index_bytes=plan.segment_index_bytes, index_interval_bytes=plan.index_interval_bytes
        )
        self._pending = bytearray()
        self.size = 0

    def append(self, batch: bytes | bytearray | memoryview, original: BatchHeader) -> None:
        """Append a batch; `original` is its header before compaction changed it."""
        header = original if isinstance(batch, memoryview) else read_header(bytes(batch[:61]), 0)
        self._segment.index_batch(
            self.size, len(batch), header.base_offset, header.last_offset, header.max_timestamp, self._config
        )
        self._pending += batch
        self.size += len(batch)
        if len(self._pending) >= WRITE_BYTES:
            self._write()

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        self._segment.transaction_index.append(transaction)

    def finish(self) -> int:
        """Complete and sync all files; return the segment's size."""
        self._write()
        self._segment.finish()
        for file in (self._segment.file, *self._segment.write_indexes()):
            file.sync()
        if self._segment.has_pending_entries:
            path = self._segment.file.path
            raise DiskFullError("append", path, OSError(errno.ENOSPC, "the indexes could not be written"))
        return self.size

    def _write(self) -> None:
        if self._pending:
            self._segment.file.append(self._pending)
            self._pending = bytearray()

    def close(self) -> None:
        self._segment.close()
