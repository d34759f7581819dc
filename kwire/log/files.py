"""Names of a log's files."""

from __future__ import annotations

from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
"""Made again from the batches when they are missing or wrong."""
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES, ".txnindex")
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class PendingDeletion(NamedTuple):
    """Renamed files that may be removed from due_ms (wall clock) on."""

    due_ms: int
    paths: list[str]
