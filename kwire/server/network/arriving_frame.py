"""Frame that arrives in several reads: it takes at most twice the received bytes, whatever its length field claims."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

LENGTH_BYTES: Final = 4


class ArrivingFrame:
    """Frame that a connection is receiving, if there is one."""

    __slots__ = ("_capacity_bytes", "_content", "_length_field", "arrived_bytes", "size_in_bytes")

    def __init__(self) -> None:
        self.arrived_bytes = 0
        """Received bytes of the frame, its length field included; 0 if none is arriving."""
        self.size_in_bytes = 0
        """Size of the whole frame, its length field included; 0 until the length field was received."""
        self._length_field = b""
        self._content: BytesIO | None = None
        """A BytesIO, because its content becomes bytes without a copy."""
        self._capacity_bytes = 0
        """Capacity of the stream after the length field: at most twice the received bytes."""

    @property
    def is_whole(self) -> bool:
        return self.arrived_bytes > 0 and self.arrived_bytes == self.size_in_bytes

    def take(self, view: memoryview, length_in: Callable[[bytes, int], int]) -> int:
        """Take the bytes that belong to the frame, and return their number.

        `length_in` is called with a buffer and a position. It returns the length field there, or raises an error.
        """
        position = 0
        if self._content is None:
            position = min(LENGTH_BYTES - len(self._length_field), len(view))
            self._length_field += bytes(view[:position])
            self.arrived_bytes += position
            if len(self._length_field) < LENGTH_BYTES:
                return position
            self.size_in_bytes = LENGTH_BYTES + length_in(self._length_field, 0)
            self._content = BytesIO()
            self._capacity_bytes = 0
        end = position + min(self.size_in_bytes - self.arrived_bytes, len(view) - position)
        self.arrived_bytes += end - position
        self._extend(self._content, end - position)
        self._content.write(view[position:end])
        return end

    def _extend(self, content: BytesIO, size: int) -> None:
        """Extend the stream for the next bytes: by itself it would grow by an eighth each time, with a copy."""
        arrived_bytes = self.arrived_bytes - LENGTH_BYTES
        if arrived_bytes > self._capacity_bytes:
            self._capacity_bytes = min(2 * arrived_bytes, self.size_in_bytes - LENGTH_BYTES)
            content.seek(self._capacity_bytes - 1)
            content.write(b"\0")
            content.seek(arrived_bytes - size)

    def end(self) -> bytes:
        """Return the bytes after the length field; no frame is arriving then."""
        content = self._content
        self.arrived_bytes = self.size_in_bytes = 0
        self._length_field, self._content = b"", None
        return b"" if content is None else content.getvalue()
