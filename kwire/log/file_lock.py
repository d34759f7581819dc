"""File locks that exclude other processes and other brokers of this process."""

# ruff: noqa: PTH116 paths are strings, as in disk.py

from __future__ import annotations

import fcntl
import os

_locks_of_this_process: dict[tuple[int, int], list[int]] = {}
"""Open file descriptors by file identity. Record locks do not exclude brokers within one process; this table does."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks_of_this_process.clear)  # a forked child holds no locks


class RealLock:
    """Lock that ends when its file descriptors are closed."""

    def __init__(self, identity: tuple[int, int]) -> None:
        self._identity = identity

    def release(self) -> None:
        for descriptor in _locks_of_this_process.pop(self._identity, []):
            os.close(descriptor)


def acquire(path: str) -> RealLock | None:
    """Take an exclusive lock on a file, which is created if missing; return None if it is held. Raises OSError."""
    if _is_held_by_process(path):
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    identity = (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino)
    own = [descriptor]
    existing = _locks_of_this_process.setdefault(identity, own)  # atomic, because another thread may run this code
    if existing is not own:
        # Closing any descriptor of a file releases the process's record locks on it, so this one stays open with them.
        existing.append(descriptor)
        return None
    try:
        # Java's FileChannel.lock is a POSIX record lock; the same kind excludes Kafka and kwire from one directory.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        RealLock(identity).release()
        return None
    return RealLock(identity)


def _is_held_by_process(path: str) -> bool:
    """Return True if this process holds the lock; checked before the open, so that retries do not leak descriptors."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) in _locks_of_this_process
