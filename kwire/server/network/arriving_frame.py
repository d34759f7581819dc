"""A frame that comes in several reads: it takes twice what has come at most, whatever its length field claims."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

LENGTH_BYTES: Final = 4


class ArrivingFrame:
    """The frame that a connection is receiving, if there is one."""

    __slots__ = ("_content", "_length_field", "_room_bytes", "arrived_bytes", "size_in_bytes")

    def __init__(self) -> None:
        self.arrived_bytes = 0
        """What has come of the frame, its length field included; 0 if none is arriving."""
        self.size_in_bytes = 0
        """Size of the whole frame, its length field included; 0 until the length field has come."""
        self._length_field = b""
        self._content: BytesIO | None = None
        """A stream, because what was written to it becomes bytes without a copy."""
        self._room_bytes = 0
        """Room in the stream for what follows the length field: at most twice what has come."""

    @property
    def is_whole(self) -> bool:
        return self.arrived_bytes > 0 and self.arrived_bytes == self.size_in_bytes

    def take(self, view: memoryview, length_in: Callable[[bytes, int], int]) -> int:
        """Take what belongs to the frame, and return how much that is.

        `length_in` reads and checks a length field at a position of some bytes; what it raises is raised.
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
            self._room_bytes = 0
        end = position + min(self.size_in_bytes - self.arrived_bytes, len(view) - position)
        self.arrived_bytes += end - position
        self._make_room(self._content, end - position)
        self._content.write(view[position:end])
        return end

    def _make_room(self, content: BytesIO, size: int) -> None:
        """Let the next bytes fit. The stream would grow by an eighth each time, and copy what it has."""
        arrived_bytes = self.arrived_bytes - LENGTH_BYTES
        if arrived_bytes > self._room_bytes:
            self._room_bytes = min(2 * arrived_bytes, self.size_in_bytes - LENGTH_BYTES)
            content.seek(self._room_bytes - 1)
            content.write(b"\0")
            content.seek(arrived_bytes - size)

    def end(self) -> bytes:
        """Return what has come behind the length field; no frame is arriving then."""
        content = self._content
        self.arrived_bytes = self.size_in_bytes = 0
        self._length_field, self._content = b"", None
        return b"" if content is None else content.getvalue()
