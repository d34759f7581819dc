"""The bytes of requests that the broker holds, over all connections, under queued.max.request.bytes.

A connection takes what it stores (a frame that is still arriving, requests that wait, requests that are being served)
and gives it back when it is done. Over the limit, connections that hold something stop reading until there is room
again. One of them, the bearer, may go on until its frame is whole: otherwise many half-arrived frames could fill the
budget with none ever complete. It stays the bearer until its whole requests are done, though its client hangs up:
otherwise one after the other could leave a request behind. So memory is bounded by the limit plus one
socket.request.max.bytes, and by what one read brings for each connection: that much is there before it is stopped.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Reader(Protocol):
    """What can be told to stop reading and to go on."""

    def pause_for_memory(self) -> None: ...

    def resume_for_memory(self) -> None: ...

    def holds_requests(self) -> bool:
        """Whether it holds whole requests, not only one that is still arriving."""


class RequestMemory:
    """A budget of bytes shared by the connections of a broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Reader] = deque()
        self._bearer: Reader | None = None

    def take(self, reader: Reader, size: int, *, is_whole: bool = False) -> None:
        """Count `size` bytes as held, of a frame that is arriving or of a request that is whole.

        The reader is paused when that is too much, unless its frame is arriving and no other bears on.
        """
        self.used_bytes += size
        if self.used_bytes <= self.limit_bytes:
            return
        if self._bearer is None:
            self._bearer = reader
        if self._bearer is reader and not is_whole:
            return
        if reader not in self._waiting:
            self._waiting.append(reader)
            reader.pause_for_memory()

    def give(self, reader: Reader, size: int) -> None:
        """Return `size` bytes; readers that waited go on while there is room."""
        self.used_bytes -= size
        assert self.used_bytes >= 0, "more request memory returned than taken"
        if self._bearer is None:
            return
        if self.used_bytes <= self.limit_bytes:
            self._bearer = None
            while self._waiting and self.used_bytes <= self.limit_bytes:
                self._waiting.popleft().resume_for_memory()
        elif reader is self._bearer and not reader.holds_requests():
            self._pass_on()

    def holds_nothing(self, reader: Reader) -> None:
        """The reader has given everything back: whoever else fills the memory, it may read on."""
        if reader in self._waiting:
            self._waiting.remove(reader)
            reader.resume_for_memory()
        if self._bearer is reader:
            self._pass_on()

    def forget(self, reader: Reader) -> None:
        """The reader is gone; what of its requests is still being served it gives back later, and bears until then."""
        if reader in self._waiting:
            self._waiting.remove(reader)
        if self._bearer is reader and not reader.holds_requests():
            self._pass_on()

    def _pass_on(self) -> None:
        self._bearer = self._waiting.popleft() if self._waiting else None
        if self._bearer is not None:
            self._bearer.resume_for_memory()
