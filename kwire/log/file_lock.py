"""Locks on files, which other processes and other brokers of this process respect."""

# ruff: noqa: PTH116 paths are strings, as in disk.py

from __future__ import annotations

import fcntl
import os

_locks_of_this_process: dict[tuple[int, int], list[int]] = {}
"""Record locks do not exclude brokers within one process: this table does. File identity -> its open descriptors."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks_of_this_process.clear)  # a fork holds none of them


class RealLock:
    """A lock that ends with its descriptors."""

    def __init__(self, identity: tuple[int, int]) -> None:
        self._identity = identity

    def release(self) -> None:
        for descriptor in _locks_of_this_process.pop(self._identity, []):
            os.close(descriptor)


def take(path: str) -> RealLock | None:
    """Take an exclusive lock on a file, made if missing; None if another broker holds it. Raises OSError."""
    if _is_held_here(path):
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    identity = (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino)
    mine = [descriptor]
    held = _locks_of_this_process.setdefault(identity, mine)  # in one step: another thread may be here
    if held is not mine:
        # Closing any descriptor of a file ends the process's record locks on it: this one stays as long as they.
        held.append(descriptor)
        return None
    try:
        # Java's FileChannel.lock is a POSIX record lock: the same kind keeps kwire and Kafka off one directory.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        RealLock(identity).release()
        return None
    return RealLock(identity)


def _is_held_here(path: str) -> bool:
    """Asked before the file is opened, so that each attempt does not keep a descriptor."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in _locks_of_this_process
