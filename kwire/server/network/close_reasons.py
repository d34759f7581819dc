"""Reasons for closing a connection, for its log line."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ProtocolError
from kwire.server.network.pending import CloseConnection

if TYPE_CHECKING:
    from kwire.server.network.connection import Connection
    from kwire.server.network.listener import Listener

logger = logging.getLogger(__name__)

_NUMBER = re.compile(r"\d+")
_TLS_HANDSHAKES = (0x160301, 0x160302, 0x160303)
"""First three bytes of a TLS connection: a handshake record of version 1.0 to 1.2, which TLS 1.3 uses too."""


def invalid_size(size: int, connection: Connection, listener: Listener) -> CloseConnection:
    """Return why to close a connection whose frame claims `size` bytes."""
    if size >> 8 not in _TLS_HANDSHAKES:
        setting = "socket.request.max.bytes"
        if listener.is_unauthenticated(connection):
            setting = "sasl.server.max.receive.size"
            listener.count_failure(connection, f"a request of {size} bytes, outside 0 to {setting}")
        return CloseConnection(f"announced a request of {size} bytes, outside 0 to {setting}")
    listener.messages.log(
        logging.WARNING,
        ("TLS", connection.peer_host),
        "a client at %s speaks TLS, but listener %s is plaintext: set its security.protocol=%s",
        connection.peer_host,
        listener.name,
        "SASL_PLAINTEXT" if listener.authenticates else "PLAINTEXT",
    )
    return CloseConnection("speaks TLS to a plaintext listener")


def close_reason(error: BaseException, connection: Connection, listener: Listener) -> str:
    """Return why a request is not answered, which closes its connection; log it if it is a fault of the broker."""
    if isinstance(error, CloseConnection):
        return str(error)
    if isinstance(error, ProtocolError):
        return f"sent a request that cannot be read: {error}"
    logger.error("a request from %s failed; closing the connection", connection.peer_name, exc_info=error)
    listener.on_request_error(error)
    return "its request failed"


def log_closing(connection: Connection, listener: Listener, reason: str, *, how: str = "") -> None:
    """Log that a connection is closed. One line in a minute for each address and kind of reason: others are counted.

    The kind leaves out numbers and what follows a colon, which a client may choose.
    """
    kind = _NUMBER.sub("", reason.partition(":")[0])
    listener.messages.log(
        logging.INFO,
        ("closing", connection.peer_host, kind),
        "closing connection from %s%s: %s",
        connection.peer_name,
        how,
        reason,
    )
