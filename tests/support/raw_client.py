"""A client that sends plain frames: any request at any version; it returns the whole decoded response."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from kwire.protocol.codec import decode_prefix
from kwire.protocol.error_codes import ProtocolError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.requesting import frame_request
from kwire.protocol.schema import find_message, schema_of

SECONDS = 20.0
NO_ID = UUID(int=0)


class RawClient:
    """A client with one connection. Responses are read in the order of the requests."""

    def __init__(
        self,
        bootstrap_server: str,
        *,
        client_id: str | None = "raw",
        receive_buffer: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, port = bootstrap_server.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SECONDS)
        try:
            self.socket.connect((host, int(port)))
            if tls is not None:
                self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        except OSError:
            self.socket.close()
            raise
        self.client_id = client_id
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # --- frames

    def header(self, api_key: int, version: int, *, flexible: bool) -> bytes:
        """Return a header for a body that no message describes."""
        self.correlation_id += 1
        client = b"" if self.client_id is None else self.client_id.encode()
        size = -1 if self.client_id is None else len(client)
        header = struct.pack(">hhih", api_key, version, self.correlation_id, size) + client
        return header + b"\x00" if flexible else header

    def frame(self, request: Any, version: int) -> bytes:
        """Return the request as it goes over the wire, prefixed by its size."""
        self.correlation_id += 1
        return frame_request(request, version, self.correlation_id, self.client_id)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def is_closed(self) -> bool:
        """True if the broker closes the connection without another response."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    # --- requests

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Any, version: int) -> None:
        self.send_bytes(self.frame(request, version))

    def receive(self, request: Any, version: int, *, correlation_id: int | None = None) -> Any:
        """Decode the next response as one to this request; its body must have no trailing bytes."""
        frame = self.receive_frame()
        (answered,) = struct.unpack_from(">i", frame)
        assert answered == (self.correlation_id if correlation_id is None else correlation_id)
        return decoded(frame, request, version)

    def receive_all(self, requests: Sequence[tuple[Any, int]]) -> list[Any]:
        """Return the responses to the last requests, which were sent without waiting: (request, version) of each."""
        first = self.correlation_id - len(requests) + 1
        return [self.receive(*each, correlation_id=first + index) for index, each in enumerate(requests)]


def decoded(frame: bytes, request: Any, version: int) -> Any:
    """Return the response to a request from a frame without its size; no bytes may follow it."""
    response, end = decode_response(frame, request, version)
    assert end == len(frame), "bytes follow the answer"
    return response


def decode_response(frame: bytes, request: Any, version: int) -> tuple[Any, int]:
    """Return (response, position where it ends) from a frame without its size. Raises ProtocolError."""
    schema = schema_of(type(request))
    assert schema.key is not None
    has_tags = version in schema.flexible and not isinstance(request, ApiVersionsRequest)
    if has_tags and frame[4:5] not in (b"", b"\0"):
        raise ProtocolError("the header of a response has tags")
    response = find_message("response", schema.key)
    assert response is not None
    return decode_prefix(response.cls, version, frame, 5 if has_tags else 4)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
