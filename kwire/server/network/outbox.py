"""Answers on their way to the sockets: those of neighbouring turns of the event loop leave together.

To wake a client that waits costs more than to answer it. While a broker is busy, each answer that leaves by itself
finds its client asleep again; answers that leave one behind the other find it awake. So small answers are held while
requests keep coming in, until a turn of the loop brings no more of them, or until they are many, or until turns that
take long have kept them for long enough. A broker that is not busy holds an answer for one look at its sockets, some
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

Buffers = list[bytes | bytearray | memoryview]

ANSWERS_MAX: Final = 64
SMALL_BYTES_MAX: Final = 16 * 1024
"""A larger answer leaves at once: its client is better off busy with it."""
SECONDS_MAX: Final = 0.002
"""Many small answers take less; what is held for longer waits for slow requests of others, one in each turn."""


class Writer(Protocol):
    """A connection."""

    def write_out(self, buffers: Buffers) -> None:
        """Give an answer to the transport."""


class Outbox:
    """The answers of one listener that have not been written yet, in order for each connection."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], now: Callable[[], float]) -> None:
        self._call_soon = call_soon
        self._now = now
        self._held: dict[Writer, Buffers] = {}
        self._count = 0
        """Answers held."""
        self._count_before = 0
        """How many were held when the last turn ended."""
        self._leave_at = 0.0
        """When what was held at the end of the first turn leaves in any case."""
        self._will_turn = False

    def put(self, connection: Writer, buffers: Buffers) -> None:
        """Answer a connection, soon; its answers leave in the order in which they came here."""
        if len(buffers) > 1 or len(buffers[0]) > SMALL_BYTES_MAX:
            self.flush()
            connection.write_out(buffers)
            return
        if not self._will_turn:
            self._will_turn = True
            self._call_soon(self._turn)
        held = self._held.get(connection)
        if held is None:
            self._held[connection] = buffers
        else:
            held.append(buffers[0])
        self._count += 1
        if self._count >= ANSWERS_MAX:
            self.flush()

    def _turn(self) -> None:
        """Called between two looks of the loop at its sockets."""
        if self._count == self._count_before or (self._count_before and self._now() >= self._leave_at):
            self._will_turn = False
            self.flush()
            return
        if self._count_before == 0:
            self._leave_at = self._now() + SECONDS_MAX
        self._count_before = self._count
        self._call_soon(self._turn)

    def flush(self) -> None:
        """Write what is held; the answers of a connection in one piece, which costs it one system call."""
        held, self._held = self._held, {}
        self._count = self._count_before = 0
        for connection, buffers in held.items():
            connection.write_out(buffers if len(buffers) == 1 else [b"".join(buffers)])
