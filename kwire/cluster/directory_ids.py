"""Reserved directory ids, which do not identify a directory (KIP-858).

A partition names for each replica the directory that holds it. The first hundred ids are reserved for replicas without
a known directory.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

MIGRATING = UUID(int=0)
"""The broker reports no directories: its version does not know directory ids."""
UNASSIGNED = UUID(int=1)
"""The broker has several directories and has not assigned one yet."""
LOST = UUID(int=2)
"""The replica is in a failed directory, and it is not known in which one."""
RESERVED_COUNT = 100


def is_reserved(directory: UUID) -> bool:
    return directory.int < RESERVED_COUNT


def is_online(directory: UUID, online: Collection[UUID]) -> bool:
    """Return True if a broker with these online directories can serve a replica in this directory."""
    if directory in (MIGRATING, UNASSIGNED):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(online: Collection[UUID]) -> UUID:
    """Return the directory of a new replica on a broker with these directories."""
    if not online:
        return MIGRATING
    return next(iter(online)) if len(online) == 1 else UNASSIGNED
