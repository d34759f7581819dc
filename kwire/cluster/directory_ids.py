"""Ids of log directories that stand for something else than a directory (KIP-858).

A partition names, for each replica, the directory that holds it. The first hundred ids are reserved for cases in which
there is none to name.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

MIGRATING = UUID(int=0)
"""The broker has not told its directories: it comes from a time without directory ids."""
UNASSIGNED = UUID(int=1)
"""The broker has several directories, and will choose."""
LOST = UUID(int=2)
"""In a directory that failed; which one it was is not known."""
RESERVED_COUNT = 100


def is_reserved(directory: UUID) -> bool:
    return directory.int < RESERVED_COUNT


def is_online(directory: UUID, online: Collection[UUID]) -> bool:
    """Whether a replica in this directory can be served by a broker whose online directories these are."""
    if directory in (MIGRATING, UNASSIGNED):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(online: Collection[UUID]) -> UUID:
    """Where a new replica is on a broker with these directories."""
    if not online:
        return MIGRATING
    return next(iter(online)) if len(online) == 1 else UNASSIGNED
