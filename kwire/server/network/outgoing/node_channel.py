"""Channel to other nodes: one connection per node and API, opened when it is first needed.

Requests of one API to one node share a connection and are answered in order. Requests of another API do not wait
behind them: a heartbeat must not wait behind a long Fetch. A timeout or any other error closes the connection, and
the next request opens another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kwire.cluster.channel import Destination, Unreachable
from kwire.protocol.error_codes import EncodeError, ProtocolError
from kwire.server.network.outgoing.node_connection import RESPONSE_BYTES_MAX, NodeConnection
from kwire.server.network.outgoing.security import PLAINTEXT, OutgoingSecurity

logger = logging.getLogger(__name__)

CONNECTIONS_MAX = 4096
"""Maximum number of connections: more than a large cluster needs; above it, idle ones are closed."""

_Lane = tuple[str, int, type]
"""Host, port and request type."""


class NodeChannel:
    """Implementation of kwire.cluster.channel.Channel over TCP."""

    def __init__(
        self,
        *,
        client_id: str,
        software_version: str,
        timeout_ms: int,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        security: OutgoingSecurity = PLAINTEXT,
    ) -> None:
        self._client_id = client_id
        self._response_bytes_max = response_bytes_max
        self._software_version = software_version
        self._security = security
        self._timeout_seconds = timeout_ms / 1000
        self._connections: dict[_Lane, NodeConnection] = {}
        """Connections, the least recently used first."""
        self._is_closed = False

    async def send(self, destination: Destination, request: Any) -> Any:
        """Return the response. Raises Unreachable if there will be none."""
        lane = destination.host, destination.port, type(request)
        where = f"node {destination.node_id} at {destination.host}:{destination.port}"
        if self._is_closed:
            raise Unreachable(f"{where}: this node is stopping")
        connection = self._connection(lane)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await connection.send(request)
        except (OSError, ProtocolError, EncodeError, UnicodeError) as error:
            if isinstance(error, TimeoutError):
                error.args = error.args or (f"no response within {self._timeout_seconds:g} s",)
                connection.close(ConnectionResetError("an earlier request on the connection timed out"))
            logger.debug("no response from %s: %s", where, error)
            raise Unreachable(f"{where}: {error}") from error
        except asyncio.CancelledError:
            if connection.is_abandoned:  # no sender would notice missing responses
                connection.close(ConnectionResetError("its requests were cancelled"))
            raise
        finally:
            if connection.is_closed and self._connections.get(lane) is connection:
                del self._connections[lane]

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close(ConnectionResetError("this node is stopping"))
        self._connections.clear()

    def _connection(self, lane: _Lane) -> NodeConnection:
        connection = self._connections.pop(lane, None)
        if connection is None or connection.is_closed:
            self._make_room()
            connection = NodeConnection(
                client_id=self._client_id,
                software_version=self._software_version,
                response_bytes_max=self._response_bytes_max,
                security=self._security,
            )
            connection.open(*lane[:2])
        self._connections[lane] = connection
        return connection

    def _make_room(self) -> None:
        """Close an idle connection if there are too many: clients can name nodes too (AddRaftVoter)."""
        if len(self._connections) < CONNECTIONS_MAX:
            return
        for lane, connection in list(self._connections.items()):
            if not connection.is_busy:
                connection.close(ConnectionResetError("it has not been used for long"))
                del self._connections[lane]
                return
