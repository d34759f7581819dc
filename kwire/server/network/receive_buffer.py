"""The buffer that all connections receive into, and how much they receive in one iteration of the event loop.

uvloop reads a socket up to 32 times in a row, as long as each read fills the buffer: twenty clients that send as fast
as they can would have the loop receive 160 MB before anybody is served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.server.network.read_pauses import ReadPauses

RECEIVE_BUFFER_BYTES: Final = 256 * 1024
LONG_READ_BYTES: Final = 16 * 1024
"""Shorter reads are not counted."""
ITERATION_BYTES: Final = 2 * 1024 * 1024
"""Received in long reads of one iteration: some milliseconds, most of them for pages of memory that are new."""
ITERATION: Final = "iteration"


class ReceiveBuffer:
    """Shared by the connections of one event loop."""

    __slots__ = ("_call_soon", "_is_counting", "_left", "_paused", "received", "short_view", "view")

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        """`call_soon` has a function called in the next iteration of the loop."""
        self._call_soon = call_soon
        self.received = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        """The whole buffer: what was received last is at its beginning."""
        self.short_view = self.received[:LONG_READ_BYTES]
        """For a connection that sends little at a time, or many small requests: it has no more of them cut out at once
        than this holds.
        """
        self.view = self.received
        """For any other, while the iteration's bytes last."""
        self._left = ITERATION_BYTES
        self._is_counting = False
        """Whether this iteration has had a long read."""
        self._paused: list[ReadPauses] = []

    def count(self, size: int, pauses: ReadPauses) -> None:
        """Count a long read; the connection reads on in the next iteration if there was enough in this one."""
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
