"""Names of a log's files, and the rename that precedes their removal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kwire.log.disk import Disk, DiskFullError

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SPARSE_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
"""Indexes that are rebuilt from the batches if they are missing or wrong."""
INDEX_SUFFIXES: Final = (*SPARSE_INDEX_SUFFIXES, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
METADATA_DIRECTORY: Final = "__cluster_metadata-0"
"""Directory of the metadata quorum's log, which may share a log directory with partitions; no log manager opens it."""


OFFSET_DIGITS: Final = 20
_INT64_MAX: Final = 2**63 - 1


def base_offset_of(name: str) -> int | None:
    """Return the offset at the start of a segment's file name, or None for any other name."""
    digits = name[:OFFSET_DIGITS]
    if len(digits) < OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset <= _INT64_MAX else None


def base_offsets(names: Iterable[str], suffix: str) -> list[int]:
    """Return the base offsets of the files with this suffix, in the order of the names."""
    found = (base_offset_of(name) for name in names if name[OFFSET_DIGITS:] == suffix)
    return [offset for offset in found if offset is not None]


class PendingDeletion(NamedTuple):
    """Renamed files that may be removed after delay_ms."""

    delay_ms: int
    paths: list[str]


def rename_deleted(disk: Disk, path: str) -> str:
    """Rename a file for a later removal and return its new path; without space for a longer name, remove it at once."""
    try:
        disk.rename(path, path + DELETED_SUFFIX)
    except DiskFullError:
        disk.unlink(path)
    return path + DELETED_SUFFIX
