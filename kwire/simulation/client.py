"""Client of request frames for simulations: sends any request in any version, and returns the decoded response."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kwire.protocol.requesting import frame_request, parse_response


class WireClient:
    """Connection of a client, made by `await WireClient.connect(...)` in a process of the simulation.

    Responses arrive in the order of the requests, so only one task at a time may send. Every error is an OSError (also
    a timeout). The outcome of the request is then unknown: close the client and connect again.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0

    @classmethod
    async def connect(cls, bootstrap_server: str, *, client_id: str = "wire", seconds: float = 10.0) -> WireClient:
        """Connect to host:port. Raises OSError."""
        host, _, port = bootstrap_server.rpartition(":")
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, int(port))
        return cls(reader, writer, client_id)

    async def ask(self, request: Any, version: int, *, seconds: float = 30.0) -> Any:
        """Return the response to a request. Raises OSError."""
        async with asyncio.timeout(seconds):
            self._correlation_id += 1
            self._writer.write(frame_request(request, version, self._correlation_id, self._client_id))
            await self._writer.drain()
            try:
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                frame = await self._reader.readexactly(size)
            except asyncio.IncompleteReadError as error:
                raise ConnectionResetError("the connection was closed in the midst of an answer") from error
        answered, response = parse_response(type(request), version, frame)
        assert answered == self._correlation_id, "an answer to another request"
        return response

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
