"""Sender of hostile frames to a broker, over many connections at once, with short timeouts."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator

from tests.hostile.frames import Shot

WORKERS = 48
ANSWER_SECONDS = 0.1
CONNECT_SECONDS = 15.0
HELD_MAX = 150
"""Maximum number of connections with half a frame; each further one closes the oldest."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Opener = Callable[[Shot], Awaitable[Connection]]
"""Function that opens the connection for a shot, for example over TLS and after a login."""


class Attack:
    """Attack with counters of outcomes: answered, closed (by the broker) or silent until the timeout."""

    def __init__(
        self, bootstrap_server: str, shots: Iterator[Shot], *, workers: int = WORKERS, opener: Opener | None = None
    ) -> None:
        host, port = bootstrap_server.rsplit(":", 1)
        self._address = host, int(port)
        self._opener = self._open if opener is None else opener
        self._shots = shots
        self._workers = workers
        self._held: deque[Connection] = deque()
        self.frames = 0
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        """Send all shots and close all connections."""
        try:
            await asyncio.gather(*(self._work() for _ in range(self._workers)))
        finally:
            for _, writer in self._held:
                writer.transport.abort()

    async def _work(self) -> None:
        connection = None
        try:
            for shot in self._shots:
                connection = await self._fire(shot, connection)
        finally:
            if connection is not None:
                connection[1].transport.abort()

    async def _fire(self, shot: Shot, connection: Connection | None) -> Connection | None:
        """Send a shot; return the connection if it can be used again."""
        if connection is None:
            connection = await self._opener(shot)
        connection[1].write(shot.data)
        self.frames += shot.frames
        if shot.holds:
            self._hold(connection)
            return None
        outcome = await self._outcome(connection[0])
        self.outcomes[outcome] += 1
        if outcome == "answered" and shot.frames == 1:
            return connection
        connection[1].transport.abort()
        return None

    async def _open(self, shot: Shot) -> Connection:
        return await asyncio.wait_for(asyncio.open_connection(*self._address), CONNECT_SECONDS)

    def _hold(self, connection: Connection) -> None:
        self.outcomes["held"] += 1
        self._held.append(connection)
        if len(self._held) > HELD_MAX:
            self._held.popleft()[1].transport.abort()

    async def _outcome(self, reader: asyncio.StreamReader) -> str:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                assert 0 < size < ANSWER_BYTES_MAX, f"the broker announces an answer of {size} bytes"
                while size:
                    part = await reader.read(min(size, 1 << 20))
                    if not part:
                        return "closed"
                    size -= len(part)
        except TimeoutError:
            return "silent"
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"
        return "answered"
