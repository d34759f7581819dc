"""A client of nothing but frames, for simulations: sends any request at any version, returns the decoded answer."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from kwire.protocol.codec import decode_prefix, encode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.schema import find_message, schema_of


class WireClient:
    """One connection, made by `await WireClient.connect(...)` in a process of the simulation.

    Answers come in the order of the requests: ask from one task at a time. Whatever goes wrong is an OSError (a
    timeout is one), and what became of the request is unknown then; close it and connect anew.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id.encode()
        self._correlation_id = 0

    @classmethod
    async def connect(cls, bootstrap_server: str, *, client_id: str = "wire", seconds: float = 10.0) -> WireClient:
        """Connect to host:port. Raises OSError."""
        host, _, port = bootstrap_server.rpartition(":")
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, int(port))
        return cls(reader, writer, client_id)

    async def ask(self, request: Any, version: int, *, seconds: float = 30.0) -> Any:
        """The answer to a request. Raises OSError."""
        async with asyncio.timeout(seconds):
            self._writer.write(self._frame(request, version))
            await self._writer.drain()
            try:
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                frame = await self._reader.readexactly(size)
            except asyncio.IncompleteReadError as error:
                raise ConnectionResetError("the connection was closed in the midst of an answer") from error
        return self._decode(request, version, frame)

    def _frame(self, request: Any, version: int) -> bytes:
        schema = schema_of(type(request))
        assert schema.key is not None
        self._correlation_id += 1
        body = bytearray()
        encode(request, version, body)
        header = struct.pack(">hhih", schema.key, version, self._correlation_id, len(self._client_id))
        tags = b"\0" if version in schema.flexible else b""
        frame = header + self._client_id + tags + bytes(body)
        return struct.pack(">i", len(frame)) + frame

    def _decode(self, request: Any, version: int, frame: bytes) -> Any:
        (answered,) = struct.unpack_from(">i", frame)
        assert answered == self._correlation_id, "an answer to another request"
        schema = schema_of(type(request))
        assert schema.key is not None
        response = find_message("response", schema.key)
        assert response is not None
        has_tags = version in schema.flexible and not isinstance(request, ApiVersionsRequest)
        value: Any
        value, end = decode_prefix(response.cls, version, frame, 5 if has_tags else 4)
        assert end == len(frame), "bytes follow the answer"
        return value

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
