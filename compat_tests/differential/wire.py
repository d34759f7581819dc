"""Connections of a replay: each sends one frame at a time and returns the outcome."""

import select
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from compat_tests.differential.lazy import Memory, filled
from compat_tests.differential.normalising import Names
from compat_tests.differential.script import Step
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.requesting import frame_request
from kwire.protocol.schema import schema_of
from tests.support.raw_client import decode_response

ANSWER_SECONDS = 5.0


class Closed(Exception):  # noqa: N818 - an outcome, not an error
    """The broker closed the connection."""


@dataclass(frozen=True, slots=True)
class Odd:
    """Outcome other than a message: connection closed, still waiting, no response, or an unreadable response."""

    what: str


CLOSED, WAITS, SILENT = Odd("connection closed"), Odd("waits"), Odd("no answer asked for")


class Connection:
    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def send(self, frame: bytes) -> None:
        try:
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            return  # reading the response finds out whether the connection is closed

    def is_readable(self, seconds: float) -> bool:
        return bool(self.received) or bool(select.select([self.socket], [], [], seconds)[0])

    def frame(self) -> bytes:
        """Return the next whole response. Raises TimeoutError after the usual time."""
        size = struct.unpack(">i", self._take(4))[0]
        return self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self.received) < size:
            try:
                chunk = self.socket.recv(1 << 18)
            except ConnectionError as error:
                raise Closed from error
            if not chunk:
                raise Closed
            self.received += chunk
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken

    def close(self) -> None:
        self.socket.close()


@dataclass(slots=True, kw_only=True)
class Side:
    """Broker in a replay, with its connections."""

    name: str
    bootstrap: str
    memory: Memory = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    connections: dict[int, Connection] = field(default_factory=dict)
    waiting: dict[int, Connection] = field(default_factory=dict)
    """Connections whose responses depend on other requests, by step."""

    def connection(self, slot: int) -> Connection:
        if slot not in self.connections:
            self.connections[slot] = Connection(self.bootstrap)
        return self.connections[slot]

    def drop(self, slot: int) -> None:
        connection = self.connections.pop(slot, None)
        if connection is not None:
            connection.close()

    def ask(self, request: Any, version: int) -> Any:
        """Send a request of the replay itself, on a separate connection."""
        connection = self.connection(-1)
        connection.send(frame_of(request, version, 0, "replay"))
        return answer_of(connection.frame(), request, version)

    def frames(self, step: Step) -> list[bytes]:
        request = filled(step.request, step.version, self.memory)
        frame = frame_of(request, step.version, step.number, f"c{step.slot}")
        frames = [_broken(frame, step) if step.breakage else frame]
        if answers_nothing(request):
            frames.append(frame_of(ApiVersionsRequest(), 0, -1, "replay"))
        return frames


def answers_nothing(request: Any) -> bool:
    return type(request).__name__ == "ProduceRequest" and request.acks == 0


def _broken(frame: bytes, step: Step) -> bytes:
    if step.breakage == "cut":
        return frame[: max(10, len(frame) - step.amount)]
    if step.breakage == "longer":
        return frame + bytes(step.amount)
    key, version = struct.unpack_from(">hh", frame)
    if step.breakage == "version":
        highest = schema_of(type(step.request)).versions.high
        return struct.pack(">hh", key, highest + step.amount) + frame[4:]
    return struct.pack(">hh", step.amount, version) + frame[4:]


def frame_of(request: Any, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return the request without its size."""
    return frame_request(request, version, correlation_id, client_id)[4:]


def answer_of(frame: bytes, request: Any, version: int) -> Any:
    """Decode a response; the response to an unknown version of ApiVersions has version 0."""
    value, end = decode_response(frame, request, version)
    if end != len(frame):
        return Odd(f"{len(frame) - end} bytes follow the answer")
    return value
