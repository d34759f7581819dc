"""Health check of the image: `health.py HOST:PORT` exits with status 0 if the broker is in service, else with 1.

It sends one Metadata request (version 1, no topics); a broker that lists itself in the response is in service. The
script imports only the standard library, so that it starts fast, and prints the broker's advertised address.
"""

import socket
import struct
import sys

METADATA = 3
SECONDS_MAX = 3.0
#: Request header v1 (key, version, correlation id, client id), then an empty list of topics.
REQUEST = struct.pack(">hhih6si", METADATA, 1, 1, 6, b"health", 0)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received


def brokers(address: tuple[str, int]) -> list[str]:
    """Return the advertised host:port of each broker in the Metadata response from `address`."""
    with socket.create_connection(address, timeout=SECONDS_MAX) as connection:
        connection.sendall(struct.pack(">i", len(REQUEST)) + REQUEST)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        body = read_exactly(connection, size)
    _, count = struct.unpack_from(">ii", body)
    position, found = 8, []
    for _ in range(count):
        _, length = struct.unpack_from(">ih", body, position)
        host = body[position + 6 : position + 6 + length].decode()
        port, rack = struct.unpack_from(">ih", body, position + 6 + length)
        position += 12 + length + max(rack, 0)
        found.append(f"{host}:{port}")
    return found


def main() -> int:
    host, _, port = sys.argv[1].rpartition(":")
    try:
        found = brokers((host, int(port)))
    except OSError as error:
        print(f"no broker at {sys.argv[1]}: {error}")
        return 1
    print(" ".join(found))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
