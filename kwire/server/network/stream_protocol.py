"""Asyncio protocol of a connection.

It is a class of its own because asyncio recognizes a protocol by its base class, and a compiled class cannot have that
base. The two calls of every read are the connection's own methods: a loop looks them up once and calls them directly.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kwire.server.network import forks

if TYPE_CHECKING:
    from kwire.server.network.connection import Connection


class StreamProtocol(asyncio.BufferedProtocol):
    """Protocol that passes the transport's calls on to a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._descriptor = forks.NO_SOCKET
        self.get_buffer = connection.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = connection.buffer_updated  # type: ignore[method-assign,assignment]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._descriptor = forks.opened(transport)
        self._connection.connection_made(transport)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        forks.closing(self._descriptor)
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
