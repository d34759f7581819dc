"""A program with a broker may fork, as multiprocessing does: the child must not keep the broker's sockets.

With them clients would wait, after the broker's end, on connections that nobody serves, and its port would stay taken.
In the child each descriptor leads nowhere instead of being closed: its number might be somebody else's by the time that
the child's copy of the event loop closes it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

NO_SOCKET: Final = -1
"""Of a transport that has none, as in a simulation."""

_descriptors: dict[int, int] = {}
"""Each with the inode of its socket: a loop that is closed forgets connections without a word."""


def opened(transport: asyncio.BaseTransport) -> int:
    """Take note of a transport's socket; its descriptor, for closing()."""
    found = transport.get_extra_info("socket")
    descriptor: int = NO_SOCKET if found is None else found.fileno()
    bound(descriptor)
    return descriptor


def bound(descriptor: int) -> None:
    """Take note of a socket."""
    if descriptor >= 0:
        _descriptors[descriptor] = os.fstat(descriptor).st_ino


def closing(descriptor: int) -> None:
    """Forget a socket, before it is closed."""
    _descriptors.pop(descriptor, None)


def _lead_nowhere() -> None:
    if not _descriptors:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, inode in _descriptors.items():
        with suppress(OSError):  # it is closed
            if os.fstat(descriptor).st_ino == inode:
                os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    _descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lead_nowhere)
