"""Security of connections to other nodes: that of one listener name, the controllers' or the brokers'."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final

from kwire.repeated_messages import RepeatedMessages
from kwire.server.network.outgoing.addresses import shown_address

if TYPE_CHECKING:
    from kwire.server.security.sasl.client import NodeLogin
    from kwire.server.security.tls.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""Longest TLS handshake with another node."""


class OutgoingSecurity:
    """Security of the connections to one listener of other nodes."""

    def __init__(self, listener_name: str, tls: ListenerTls | None, login: NodeLogin | None = None) -> None:
        """`tls` is None for a listener without TLS, `login` for one without SASL."""
        self.login = login
        """Login of this node on each connection."""
        self._listener_name = listener_name
        self._tls = tls
        self._messages: RepeatedMessages | None = None

    async def connect(self, protocol: asyncio.Protocol, host: str, port: int) -> None:
        """Connect a protocol. Raises OSError, also ssl.SSLError, and UnicodeError for an invalid host name."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.create_connection(lambda: protocol, host, port)
            return
        options: dict[str, Any] = {
            "ssl": self._tls.client_context,
            "server_hostname": host,
            "ssl_handshake_timeout": HANDSHAKE_SECONDS,
        }
        try:
            await loop.create_connection(lambda: protocol, host, port, **options)
        except ssl.SSLError as error:
            self._log(host, port, error)
            raise

    def _log(self, host: str, port: int, error: ssl.SSLError) -> None:
        """Log why a handshake has failed: without it, a node that never finds its cluster would be silent."""
        if self._messages is None:
            loop = asyncio.get_running_loop()
            self._messages = RepeatedMessages(logger, lambda: loop.time() * 1000)
        self._messages.log(
            logging.WARNING,
            (host, port),
            "the TLS handshake with %s on listener %s failed: %s",
            shown_address(host, port),
            self._listener_name,
            reason_of(error),
        )


def reason_of(error: ssl.SSLError) -> str:
    """Return why a handshake failed, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ")


PLAINTEXT: Final = OutgoingSecurity("PLAINTEXT", None)
