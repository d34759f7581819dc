"""Names of a log's files."""

from __future__ import annotations

from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, ".index", ".timeindex", ".txnindex")
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class PendingDeletion(NamedTuple):
    """Renamed files that may be removed from due_ms (wall clock) on."""

    due_ms: int
    paths: list[str]
