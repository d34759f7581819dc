"""Sockets after a fork: the child of a program with a broker (multiprocessing) must not keep the broker's sockets.

Otherwise, after the broker has ended, clients would wait on connections that no process serves, and the port would stay
in use. The child redirects each descriptor to /dev/null and does not close it. The child's copy of the event loop
closes it later. If it were closed now, it could belong to another file by then.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

NO_SOCKET: Final = -1
"""Descriptor of a transport without a socket, as in a simulation."""

_descriptors: dict[int, int] = {}
"""Inode of the socket of each descriptor. It shows whether the descriptor is still that socket: an event loop that is
closed closes its connections without a callback."""


def opened(transport: asyncio.BaseTransport) -> int:
    """Register a transport's socket; return its descriptor, for closing()."""
    found = transport.get_extra_info("socket")
    descriptor: int = NO_SOCKET if found is None else found.fileno()
    bound(descriptor)
    return descriptor


def bound(descriptor: int) -> None:
    """Register a socket."""
    if descriptor >= 0:
        _descriptors[descriptor] = os.fstat(descriptor).st_ino


def closing(descriptor: int) -> None:
    """Remove a socket, before it is closed."""
    _descriptors.pop(descriptor, None)


def _redirect_to_null() -> None:
    if not _descriptors:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, inode in _descriptors.items():
        with suppress(OSError):  # the descriptor is closed
            if os.fstat(descriptor).st_ino == inode:
                os.dup2(null, descriptor, inheritable=False)
    os.close(null)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_redirect_to_null)
