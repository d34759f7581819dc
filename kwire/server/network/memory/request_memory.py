"""Memory of requests, over all connections, limited by queued.max.request.bytes.

A connection counts the bytes that it stores: a frame that is arriving, requests that wait or are being served. It
returns them when it is done. Over the limit, connections with stored bytes stop reading until there is room again.

One of them is exempt (`_exempt`) and may read until its frame is whole. Otherwise many half-arrived frames could fill
the budget, and none would ever complete. It stays exempt until its whole requests are done, also if its client
disconnects. Otherwise many connections could each leave a request in memory, one after the other.

So the memory is bounded by the limit, one socket.request.max.bytes, and one read of each connection, which is
received before the connection stops.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Reader(Protocol):
    """Connection that can stop and resume reading."""

    def pause_for_memory(self) -> None: ...

    def resume_for_memory(self) -> None: ...

    def has_whole_requests(self) -> bool:
        """Return True if it stores whole requests, not only one that is still arriving."""


class RequestMemory:
    """Budget of bytes shared by the connections of a broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Reader] = deque()
        self._exempt: Reader | None = None

    def acquire(self, reader: Reader, size: int, *, is_whole: bool = False) -> None:
        """Count `size` bytes as stored, of a frame that is arriving or of a request that is whole.

        Over the limit the reader is paused, unless its frame is arriving and no other reader is exempt.
        """
        self.used_bytes += size
        if self.used_bytes <= self.limit_bytes:
            return
        if self._exempt is None:
            self._exempt = reader
        if self._exempt is reader and not is_whole:
            return
        if reader not in self._waiting:
            self._waiting.append(reader)
            reader.pause_for_memory()

    def release(self, reader: Reader, size: int) -> None:
        """Return `size` bytes; paused readers continue while there is room."""
        self.used_bytes -= size
        assert self.used_bytes >= 0, "more request memory returned than taken"
        if self._exempt is None:
            return
        if self.used_bytes <= self.limit_bytes:
            self._exempt = None
            while self._waiting and self.used_bytes <= self.limit_bytes:
                self._waiting.popleft().resume_for_memory()
        elif reader is self._exempt and not reader.has_whole_requests():
            self._choose_exempt()

    def resume_empty(self, reader: Reader) -> None:
        """Let a reader without stored bytes continue, even if other readers fill the memory."""
        if reader in self._waiting:
            self._waiting.remove(reader)
            reader.resume_for_memory()
        if self._exempt is reader:
            self._choose_exempt()

    def remove(self, reader: Reader) -> None:
        """Remove a disconnected reader. While its requests are being served, their bytes count and it stays exempt."""
        if reader in self._waiting:
            self._waiting.remove(reader)
        if self._exempt is reader and not reader.has_whole_requests():
            self._choose_exempt()

    def _choose_exempt(self) -> None:
        self._exempt = self._waiting.popleft() if self._waiting else None
        if self._exempt is not None:
            self._exempt.resume_for_memory()
