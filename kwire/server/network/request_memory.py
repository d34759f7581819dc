"""The bytes of requests that the broker holds, over all connections, under queued.max.request.bytes.

A connection takes what it stores (a frame that is still arriving, requests that wait, requests that are being served)
and gives it back when it is done. Over the limit, connections that hold something stop reading until there is room
again. One of them, the bearer, may always go on: otherwise many half-arrived frames could fill the budget with none
ever complete. So memory is bounded by the limit plus one socket.request.max.bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Reader(Protocol):
    """What can be told to stop reading and to go on."""

    def pause_for_memory(self) -> None: ...

    def resume_for_memory(self) -> None: ...


class RequestMemory:
    """A budget of bytes shared by the connections of a broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Reader] = deque()
        self._bearer: Reader | None = None

    def take(self, reader: Reader, size: int) -> None:
        """Count `size` bytes as held; the reader is paused when that is too much and another already bears on."""
        self.used_bytes += size
        if self.used_bytes <= self.limit_bytes or self._bearer is reader:
            return
        if self._bearer is None:
            self._bearer = reader
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
        elif reader is self._bearer:
            self._pass_on()

    def holds_nothing(self, reader: Reader) -> None:
        """The reader has given everything back: whoever else fills the memory, it may read on."""
        if reader in self._waiting:
            self._waiting.remove(reader)
            reader.resume_for_memory()

    def forget(self, reader: Reader) -> None:
        """The reader is gone; what of its requests is still being served it gives back later."""
        if reader in self._waiting:
            self._waiting.remove(reader)
        if self._bearer is reader:
            self._pass_on()

    def _pass_on(self) -> None:
        self._bearer = self._waiting.popleft() if self._waiting else None
        if self._bearer is not None:
            self._bearer.resume_for_memory()
