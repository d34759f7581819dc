"""Transport of a connection over TLS: it encrypts output in pieces, and counts all bytes that the client has not read.

An event loop encrypts everything that is written to its TLS transport at once, and passes it to the socket's transport,
whose unsent bytes it does not report. A response of 50 MB would hold the loop for 50 ms, and would count nowhere. So a
piece is written only while the socket accepts the last one. At most HIDDEN_BYTES_MAX are in both transports.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from kwire.server.network.outbox import Buffers

PIECE_BYTES: Final = 64 * 1024
"""Bytes that are encrypted in one call; four TLS records."""
ITERATION_BYTES: Final = 512 * 1024
"""Bytes of one connection that are encrypted in one iteration of the event loop: about a millisecond."""
HIDDEN_BYTES_MAX: Final = 256 * 1024


class Writing(Protocol):
    """Connection that writes to a transport."""

    def pause_writing(self) -> None:
        """Serve no further request."""

    def resume_writing(self) -> None:
        """Serve requests again."""


class TlsTransport:
    """Transport for a connection, over the TLS transport of the event loop."""

    def __init__(self, transport: asyncio.Transport, connection: Writing) -> None:
        """`connection` is paused while too much is unsent."""
        self._transport = transport
        self._connection = connection
        self._call_soon = asyncio.get_running_loop().call_soon
        self._waiting: deque[bytes | bytearray | memoryview] = deque()
        """Output that is not encrypted yet."""
        self._waiting_bytes = 0
        self._high = HIDDEN_BYTES_MAX
        self._is_blocked = False
        """True while the TLS transport accepts no more."""
        self._is_paused = False
        """True if the connection was asked to write no more."""
        self._is_scheduled = False
        self._is_closing = False
        transport.set_write_buffer_limits(high=PIECE_BYTES)
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    # --- the connection's calls

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._waiting and not self._is_blocked and len(data) <= PIECE_BYTES:
            self._transport.write(data)
        else:
            self.writelines([data])

    def writelines(self, buffers: Buffers) -> None:
        self._waiting.extend(buffers)
        self._waiting_bytes += sum(map(len, buffers))
        if not self._is_scheduled:
            self._encrypt()

    def close(self) -> None:
        """Close when the output is sent."""
        self._is_closing = True
        if not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.end()
        self._transport.abort()

    # --- the TLS transport's calls

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        if not self._is_scheduled:
            self._encrypt()

    def end(self) -> None:
        """Drop the output of a closed connection."""
        self._waiting.clear()
        self._waiting_bytes = 0

    # --- pieces

    def _encrypt(self) -> None:
        """Pass pieces on while the TLS transport accepts them; continue in the next iteration of the loop."""
        self._is_scheduled = True  # writes that the calls below lead to only wait
        left = ITERATION_BYTES
        while self._waiting and not self._is_blocked and left > 0:
            piece = self._next_piece()
            left -= len(piece)
            self._waiting_bytes -= len(piece)
            self._transport.write(piece)
        if self._waiting and not self._is_blocked:
            self._call_soon(self._encrypt)
        else:
            self._is_scheduled = False
        if self._is_closing and not self._waiting:
            self._transport.close()
        self._notify()

    def _next_piece(self) -> bytes | bytearray | memoryview:
        """Take the next PIECE_BYTES of output, or all of it; short buffers are joined."""
        first = self._waiting.popleft()
        if len(first) > PIECE_BYTES:
            view = memoryview(first)
            self._waiting.appendleft(view[PIECE_BYTES:])
            return view[:PIECE_BYTES]
        parts, size = [first], len(first)
        while self._waiting and size + len(self._waiting[0]) <= PIECE_BYTES:
            part = self._waiting.popleft()
            size += len(part)
            parts.append(part)
        return first if len(parts) == 1 else b"".join(parts)

    def _notify(self) -> None:
        """Pause the connection while more than its limit is unsent, until a quarter of it is left."""
        unsent = self.get_write_buffer_size()
        if not self._is_paused and unsent > self._high:
            self._is_paused = True
            self._connection.pause_writing()
        elif self._is_paused and unsent <= self._high // 4:
            self._is_paused = False
            self._connection.resume_writing()
