"""Receive buffer of all connections, and a limit of the bytes received in one iteration of the event loop.

uvloop reads a socket up to 32 times in a row, as long as each read fills the buffer. With twenty clients that send as
fast as they can, the loop would receive 160 MB before it serves any connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.server.network.flow.read_pauses import ReadPauses

RECEIVE_BUFFER_BYTES: Final = 256 * 1024
LONG_READ_BYTES: Final = 16 * 1024
"""Size from which a read is counted."""
ITERATION_BYTES: Final = 2 * 1024 * 1024
"""Maximum bytes of long reads in one iteration. They take some milliseconds, mostly to allocate pages of memory."""
ITERATION: Final = "iteration"


class ReceiveBuffer:
    """Receive buffer shared by the connections of one event loop."""

    __slots__ = ("_call_soon", "_is_counting", "_left", "_paused", "received", "short_view", "view")

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        """`call_soon` schedules a function for the next iteration of the loop."""
        self._call_soon = call_soon
        self.received = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """The whole buffer; the last received bytes are at its beginning."""
        self.short_view = self.received[:LONG_READ_BYTES]
        """Part for a connection that sends little at a time, or many small requests.

        It limits how many of these are taken out of the buffer at once.
        """
        self.view = self.received
        """View for any other connection, until the bytes of the iteration are used up."""
        self._left = ITERATION_BYTES
        self._is_counting = False
        """True if this iteration has had a long read."""
        self._paused: list[ReadPauses] = []

    def count(self, size: int, pauses: ReadPauses) -> None:
        """Count a long read. If the iteration's bytes are used up, the connection continues in the next one."""
        if not self._is_counting:
            self._is_counting = True
            self._call_soon(self._begin_iteration)
        self._left -= size
        if self._left <= 0:
            self.view = self.short_view
            pauses.add(ITERATION)
            self._paused.append(pauses)

    def _begin_iteration(self) -> None:
        self._is_counting = False
        self._left = ITERATION_BYTES
        self.view = self.received
        paused, self._paused = self._paused, []
        for pauses in paused:
            pauses.discard(ITERATION)
