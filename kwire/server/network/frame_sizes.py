"""Frames that are long, and length fields that are refused."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kwire.server.network.pending import CloseConnection

if TYPE_CHECKING:
    from kwire.server.network.connection import Connection
    from kwire.server.network.listener import Listener

LONG_REQUEST_BYTES: Final = 8 * 1024
"""A longer request may have many elements: it is read, and answered, in pieces."""
_TLS_HANDSHAKES = (0x160301, 0x160302, 0x160303)
"""First three bytes of a TLS connection: a handshake record of version 1.0 to 1.2, which TLS 1.3 claims to be, too."""


def bad_size(size: int, connection: Connection, listener: Listener) -> CloseConnection:
    """Why a connection is closed whose frame claims `size` bytes."""
    if size >> 8 not in _TLS_HANDSHAKES:
        return CloseConnection(f"announced a request of {size} bytes, outside 0 to socket.request.max.bytes")
    listener.messages.log(
        logging.WARNING,
        ("TLS", connection.peer_host),
        "a client at %s speaks TLS, but listener %s is plaintext: set its security.protocol=PLAINTEXT",
        connection.peer_host,
        listener.name,
    )
    return CloseConnection("speaks TLS to a plaintext listener")
