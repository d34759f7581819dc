"""Client that logs in with SCRAM-SHA-256 again and again, each time on a new connection.

    python -m benchmarks.logins HOST PORT USER PASSWORD SECONDS

Prints the number of logins. Keys are derived once: all logins of a user have the same salt and iterations, and a client
may keep what it derived from them (RFC 5802, section 3).
"""

import base64
import hashlib
import hmac
import secrets
import socket
import struct
import sys
import time
from functools import lru_cache

HANDSHAKE, AUTHENTICATE = 17, 36
VERSION = 1
DIGEST = "sha256"


def main() -> None:
    host, port, user, password, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    logins = 0
    while time.monotonic() < end:
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            log_in(connection, user, password)
        logins += 1
    print(logins)


def log_in(connection: socket.socket, user: str, password: str) -> None:
    mechanism = b"SCRAM-SHA-256"
    answer = ask(connection, HANDSHAKE, struct.pack(">h", len(mechanism)) + mechanism)
    assert answer[:2] == b"\0\0", "the mechanism was rejected"
    bare = f"n={user},r={secrets.token_hex(12)}"
    server_first = authenticate(connection, f"n,,{bare}")
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    client_key, stored_key = derived(password, fields["s"], int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    signature = hmac.digest(stored_key, f"{bare},{server_first},{without_proof}".encode(), DIGEST)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = authenticate(connection, f"{without_proof},p={base64.b64encode(proof).decode()}")
    assert final.startswith("v="), final


@lru_cache
def derived(password: str, salt: str, iterations: int) -> tuple[bytes, bytes]:
    """Return (client key, stored key)."""
    salted = hashlib.pbkdf2_hmac(DIGEST, password.encode(), base64.b64decode(salt), iterations)
    client_key = hmac.digest(salted, b"Client Key", DIGEST)
    return client_key, hashlib.new(DIGEST, client_key).digest()


def authenticate(connection: socket.socket, message: str) -> str:
    """Send a SCRAM message; return the server's."""
    token = message.encode()
    answer = ask(connection, AUTHENTICATE, struct.pack(">i", len(token)) + token)
    code, message_size = struct.unpack_from(">hh", answer)
    assert code == 0, answer
    start = 4 + max(message_size, 0)
    (size,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + size].decode()


def ask(connection: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send a request; return the body of the response."""
    request = struct.pack(">hhih", api_key, VERSION, 1, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", received(connection, 4))
    return received(connection, size)[4:]


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return data


if __name__ == "__main__":
    main()
