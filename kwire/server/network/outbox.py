"""Outbox of responses: small responses of consecutive iterations of the event loop are written together.

Waking a client that sleeps costs more than answering it. On a busy broker, each response that is written alone wakes
its client anew; responses that are written one after the other wake it once. So small responses are held while requests
arrive. They are written when an iteration of the loop adds no response, when there are ANSWERS_MAX of them, or after
SECONDS_MAX if the iterations are long. They are also written after each turn of queued connections (turns.py), and
before a larger response. A broker that is not busy holds a response for one poll of its sockets, some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

Buffers = list[bytes | bytearray | memoryview]

ANSWERS_MAX: Final = 64
SMALL_BYTES_MAX: Final = 16 * 1024
"""Size above which a response is written at once: its client needs time to process it."""
SECONDS_MAX: Final = 0.002
"""Longest time for which a response is held; it is reached only if every iteration of the loop has a slow request."""


class Writer(Protocol):
    """Connection that writes responses."""

    def write_out(self, buffers: Buffers) -> None:
        """Pass a response to the transport."""


class Outbox:
    """Unwritten responses of one listener, in order for each connection."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], now: Callable[[], float]) -> None:
        self._call_soon = call_soon
        self._now = now
        self._unwritten: dict[Writer, Buffers] = {}
        self._count = 0
        """Number of held responses."""
        self._count_before = 0
        """Number of held responses at the end of the last iteration."""
        self._flush_at = 0.0
        """Time when the responses are written in any case, set at the end of the first iteration."""
        self._is_scheduled = False

    def put(self, connection: Writer, buffers: Buffers) -> None:
        """Write a response to a connection soon; each connection's responses keep their order."""
        if len(buffers) > 1 or len(buffers[0]) > SMALL_BYTES_MAX:
            self.flush()
            connection.write_out(buffers)
            return
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._turn)
        held = self._unwritten.get(connection)
        if held is None:
            self._unwritten[connection] = buffers
        else:
            held.append(buffers[0])
        self._count += 1
        if self._count >= ANSWERS_MAX:
            self.flush()

    def _turn(self) -> None:
        """Write held responses, or wait for the next iteration; called between two polls of the sockets."""
        if self._count == self._count_before or (self._count_before and self._now() >= self._flush_at):
            self._is_scheduled = False
            self.flush()
            return
        if self._count_before == 0:
            self._flush_at = self._now() + SECONDS_MAX
        self._count_before = self._count
        self._call_soon(self._turn)

    def flush(self) -> None:
        """Write held responses; those of a connection in one piece, which costs one system call."""
        held, self._unwritten = self._unwritten, {}
        self._count = self._count_before = 0
        for connection, buffers in held.items():
            connection.write_out(buffers if len(buffers) == 1 else [b"".join(buffers)])
