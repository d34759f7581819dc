"""Bytes of responses that clients have not read yet, over all connections, under a limit.

A connection reports when its output exceeds its socket's buffer, and when it has drained. A handler whose response may
be large first requests the number of bytes that it may have. That is a part of the bytes that are left, so that every
reader receives a response, if a smaller one. If clients that do not read still fill the limit, the connection that has
not drained for longest is closed. Its client, if it still runs, connects and requests again.
"""

from __future__ import annotations

from typing import Protocol

RESPONSE_BYTES_MIN = 1024 * 1024
"""Bytes that a response may have in any case: the default of max.partition.fetch.bytes."""
ROOM_DIVISOR = 4
"""Divisor: one response may have a fourth of the bytes that are left."""


class Writer(Protocol):
    """Connection with output."""

    @property
    def unsent_bytes(self) -> int: ...

    def close_now(self, reason: str) -> None: ...


class OutputMemory:
    """Budget of bytes shared by the connections of a broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.reserved_bytes = 0
        self._unsent: dict[Writer, int] = {}
        """Unsent bytes of connections that have not drained, the longest undrained first."""

    def response_bytes_max(self) -> int:
        """Return the bytes that the next response may have."""
        return max(RESPONSE_BYTES_MIN, (self.limit_bytes - self.used_bytes - self.reserved_bytes) // ROOM_DIVISOR)

    def reserve(self, size: int) -> None:
        """Count bytes of a response that is being made and not written yet; negative if it shrinks."""
        self.reserved_bytes += size

    def release_reserved(self, size: int) -> None:
        """Remove the bytes of a written response; set_unsent() counts what its client does not read."""
        self.reserved_bytes -= size
        assert self.reserved_bytes >= 0, "more response bytes released than reserved"

    def set_unsent(self, writer: Writer, size: int) -> None:
        """Count the unsent bytes of a connection."""
        self.used_bytes += size - self._unsent.get(writer, 0)
        self._unsent[writer] = size
        if self.used_bytes > self.limit_bytes:
            self._close_slowest()

    def release(self, writer: Writer) -> None:
        """Remove a connection that has drained or is closed."""
        self.used_bytes -= self._unsent.pop(writer, 0)

    def _close_slowest(self) -> None:
        self._unsent = {writer: writer.unsent_bytes for writer in self._unsent}
        self.used_bytes = sum(self._unsent.values())
        while self.used_bytes > self.limit_bytes and len(self._unsent) > 1:
            slowest = next(iter(self._unsent))
            self.release(slowest)
            slowest.close_now(
                "unread responses exceed their memory limit, and this client has read nothing for longest"
            )
