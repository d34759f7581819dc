"""Readiness check of a broker with two hand-written frames, independent of the codecs under test."""

import socket
import struct

API_VERSIONS = 18
METADATA = 3
TIMEOUT_SECONDS = 2.0


def ask(address: tuple[str, int], api_key: int, version: int, body: bytes) -> bytes:
    """Send one request with header v1 and return what follows the correlation id."""
    client = b"readiness"
    frame = struct.pack(">hhih", api_key, version, 1, len(client)) + client + body
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        return read_exactly(connection, size)[4:]


def read_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError(f"closed after {len(received)} of {size} bytes")
        received += chunk
    return bytes(received)


def is_ready(address: tuple[str, int]) -> bool:
    """Return True if ApiVersions succeeds and Metadata lists at least one broker."""
    (error,) = struct.unpack_from(">h", ask(address, API_VERSIONS, 0, b""))
    (brokers,) = struct.unpack_from(">i", ask(address, METADATA, 1, struct.pack(">i", 0)))
    return bool(error == 0 and brokers > 0)
