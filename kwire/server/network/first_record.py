"""Arrival of the first TLS record of a client, in the buffer of its socket.

The answer to it is the expensive part of a handshake: a signature, which takes a millisecond with an RSA key. It is
therefore computed only when the record is there, for one client in each iteration of the event loop. Otherwise clients
could let their records arrive together, and block the loop for a second.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

HEADER_BYTES: Final = 5
"""Type 1, version 2, length 2."""
CONTENT_BYTES_MAX: Final = 16_384
"""Largest content of a record without encryption."""
_HANDSHAKE: Final = 22


class FirstRecord:
    """Watch of one accepted socket; it reads nothing from it."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted
        self._descriptor = accepted.fileno()
        self._arrived: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the whole record has arrived, other bytes have, or the client has ended the connection."""
        await self._wait_for(HEADER_BYTES)
        found = self._socket.recv(HEADER_BYTES + CONTENT_BYTES_MAX, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        if len(found) >= HEADER_BYTES and found[0] == _HANDSHAKE:
            count = HEADER_BYTES + min(int.from_bytes(found[3:HEADER_BYTES]), CONTENT_BYTES_MAX)
            if len(found) < count:
                await self._wait_for(count)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _wait_for(self, count: int) -> None:
        """Wait until that many bytes have arrived: the kernel reports no fewer."""
        loop = asyncio.get_running_loop()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
        self._arrived = loop.create_future()
        loop.add_reader(self._descriptor, _set, self._arrived)
        try:
            await self._arrived
        finally:
            self.stop()

    def stop(self) -> None:
        """Watch no longer. It must be called before the socket is closed, because another one may get its number."""
        if self._arrived is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._arrived = None


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
