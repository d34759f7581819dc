"""Listening socket and its connections: limits, idle connections, the receive buffer."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kwire.chunks import chunks, turn
from kwire.repeated_messages import RepeatedMessages
from kwire.server.network import forks
from kwire.server.network.close_reasons import close_reason
from kwire.server.network.connection import Connection
from kwire.server.network.connection_limits import ConnectionLimits
from kwire.server.network.flow.turns import Turns
from kwire.server.network.handshakes import TlsAcceptor
from kwire.server.network.memory.output_memory import OutputMemory
from kwire.server.network.memory.receive_buffer import ReceiveBuffer
from kwire.server.network.memory.request_memory import RequestMemory
from kwire.server.network.outbox import Outbox
from kwire.server.network.pending import Outcome
from kwire.server.network.principal_builder import PrincipalBuilder, same_principal
from kwire.server.network.stream_protocol import StreamProtocol
from kwire.server.network.unauthenticated import UnauthenticatedConnections
from kwire.server.security.sasl.login_audit import LoginAudit

if TYPE_CHECKING:
    from kwire.server.security.tls.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
STALLED_WRITE_SECONDS = 30.0
"""Seconds after which a client that reads nothing of a full output buffer is disconnected."""

Handle = Callable[[Connection, bytes], Outcome]


class ConnectionTable:
    """All client connections of a broker, over its listeners."""

    def __init__(self) -> None:
        self.connections: dict[Connection, None] = {}
        self.handshakes = 0
        """Number of TLS connections whose handshake has not ended; they count as connections."""
        self.per_host: Counter[str] = Counter()
        loop = asyncio.get_running_loop()
        self.unauthenticated = UnauthenticatedConnections(LoginAudit(lambda: loop.time() * 1000))

    @property
    def count(self) -> int:
        """Number of connections, with those whose handshake has not ended."""
        return len(self.connections) + self.handshakes

    def add(self, connection: Connection) -> None:
        self.connections[connection] = None
        self.per_host[connection.peer_host] += 1

    def remove(self, connection: Connection) -> None:
        if self.connections.pop(connection, 0) is None:
            self._release(connection.peer_host)
            self.unauthenticated.remove(connection)

    def handshake_began(self, host: str) -> None:
        self.handshakes += 1
        self.per_host[host] += 1

    def handshake_ended(self, host: str) -> None:
        self.handshakes -= 1
        self._release(host)

    def _release(self, host: str) -> None:
        self.per_host[host] -= 1
        if not self.per_host[host]:
            del self.per_host[host]

    def longest_idle(self) -> Connection | None:
        """Return the client's connection that has been idle longest and waits for no response.

        As in Apache Kafka, connections of nodes stay: clients could otherwise separate the brokers.
        """
        idle = (each for each in self.connections if not each.is_busy and not each.share.is_node)
        return min(idle, key=lambda connection: connection.last_active, default=None)


class Listener:
    """Named endpoint of the broker."""

    def __init__(
        self,
        *,
        name: str,
        limits: ConnectionLimits,
        memory: RequestMemory,
        output: OutputMemory,
        turns: Turns,
        table: ConnectionTable,
        receive_buffer: ReceiveBuffer,
        on_request_error: Callable[[BaseException], None],
        excludes_clients: bool = False,
        tls: ListenerTls | None = None,
        sasl_bytes_max: int | None = None,
        principal_builder: PrincipalBuilder = same_principal,
    ) -> None:
        """`on_request_error` receives errors of requests; `excludes_clients` is True if only nodes connect.

        `tls` is None for a listener without TLS. `sasl_bytes_max` is the largest frame before authentication; None
        without SASL.
        """
        self.name = name
        self._principal_builder = principal_builder
        self.excludes_clients = excludes_clients
        self.authenticates = sasl_bytes_max is not None
        """True if clients authenticate by SASL."""
        self._sasl_bytes_max = sasl_bytes_max
        self.handle: Handle
        """Serves a request; set by serve()."""
        self.on_request_error = on_request_error
        self.limits = limits
        self._own_limits = limits.of_listener(name)
        self._connection_count = 0
        self.memory = memory
        self.output = output
        self.turns = turns
        self.receive_buffer = receive_buffer
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.outbox = Outbox(loop.call_soon, loop.time)
        turns.turn_ended.append(self.outbox.flush)
        self.messages = RepeatedMessages(logger, lambda: loop.time() * 1000)
        self.port = 0
        self.table = table
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None
        """Accepts the connections of a listener with TLS, in place of the server."""
        self._server: asyncio.AbstractServer | None = None
        self._descriptors: list[int] = []
        self._is_closed = False

    async def bind(self, host: str, port: int) -> None:
        """Bind the address. Port 0 binds a free one, which `port` then contains. Raises OSError."""
        loop = asyncio.get_running_loop()
        server: Any = await loop.create_server(
            lambda: StreamProtocol(Connection(self)),
            host or None,
            port,
            backlog=self.limits.backlog,
            start_serving=False,
        )
        self._server = server
        self.port = server.sockets[0].getsockname()[1]
        self._descriptors = [each.fileno() for each in server.sockets]
        for descriptor in self._descriptors:
            forks.bound(descriptor)

    async def serve(self, handle: Handle) -> None:
        """Accept connections from now on. Raises OSError if another process listens there now."""
        assert self._server is not None, "bind comes before serve"
        self.handle = handle
        self.limits.prepare(getattr(self._server, "sockets", ()))
        if self._tls is None:
            await self._server.start_serving()
            return
        self._acceptor = TlsAcceptor(self, self._tls, getattr(self._server, "sockets", ()))
        self._acceptor.start()

    def stop_accepting(self) -> None:
        """Close the socket; a connection that the event loop accepted just before is closed when it arrives."""
        self._is_closed = True
        for descriptor in self._descriptors:
            forks.closing(descriptor)
        self._descriptors = []
        if self._acceptor is not None:
            self._acceptor.stop()
        if self._server is not None:
            self._server.close()

    # --- called by connections

    def name_client(self, connection: Connection, principal: str) -> None:
        """Set the principal of a client whose login says `principal`. An error closes the connection."""
        try:
            connection.principal = self._principal_builder(
                principal, listener_name=self.name, host=connection.peer_host
            )
        except Exception as error:  # noqa: BLE001 an installed builder may raise any error
            connection.close_now(close_reason(error, connection, self))

    @property
    def first_frame_bytes_max(self) -> int:
        """Largest frame of a new connection, in bytes."""
        most = self.limits.request_bytes_max
        return most if self._sasl_bytes_max is None else min(most, self._sasl_bytes_max)

    def connected(self, connection: Connection) -> None:
        self.table.add(connection)
        self._connection_count += 1
        self.name_client(connection, connection.principal)
        if reason := self.refusal(connection.peer_host):
            connection.close_now(reason)
        if self._is_closed:
            return
        if self.authenticates:
            self.table.unauthenticated.add(connection, self.name, connections_max=self.limits.connections_max)
        if self._tls is None:  # a TLS connection was limited before its handshake
            self._limit_rate(connection)

    def refusal(self, host: str) -> str:
        """Return why a new connection, which is counted, is closed; empty to serve it.

        Above max.connections, the connection that has been idle longest is closed in its place.
        """
        table, limits = self.table, self.limits
        if self._is_closed:
            return "the listener is closed"
        if table.per_host[host] > limits.max_from(host):
            return "too many connections from this address (max.connections.per.ip)"
        if self._connection_count > self._own_limits.connections_max:
            return f"too many connections (max.connections of listener {self.name})"
        if table.count <= limits.connections_max:
            return ""
        reason = "too many connections (max.connections)"
        victim = table.longest_idle()
        if victim is None:
            return "" if self.excludes_clients else reason
        victim.close_now(reason)
        return ""

    def _limit_rate(self, connection: Connection) -> None:
        limits = self.limits
        if rejected_ms := limits.rejected_ms(connection.peer_host):
            connection.mute(rejected_ms + int(SWEEP_SECONDS * 1000))
            reason = "connects too often (connection_creation_rate)"
            asyncio.get_running_loop().call_later(rejected_ms / 1000.0, connection.close_now, reason)
        elif delay_ms := self.delay_ms(connection.last_active):
            connection.mute(delay_ms)

    def is_unauthenticated(self, connection: Connection) -> bool:
        """Return True if the client has to authenticate first."""
        return connection in self.table.unauthenticated

    def count_failure(self, connection: Connection, reason: str) -> None:
        """Count a connection that ends without authentication."""
        self.table.unauthenticated.fail(connection, reason)

    def delay_ms(self, now: float) -> int:
        """Return how long a new connection waits. As in Apache Kafka, nodes are exempt from the broker's own rate."""
        own_ms = self._own_limits.rate.delay_ms(now)
        return own_ms if self.excludes_clients else max(own_ms, self.limits.rate.delay_ms(now))

    def disconnected(self, connection: Connection) -> None:
        self._connection_count -= 1
        self.table.remove(connection)


async def sweep_connections(table: ConnectionTable, limits: ConnectionLimits) -> None:
    """Close idle connections and those whose client stopped reading, for as long as the broker runs.

    As in Apache Kafka, an idle connection is closed even if it waits for a response, unless the response is being made
    in pieces. Otherwise some connections would stay open: the broker cannot notice a reset by a peer that has closed
    its side before, or while reading is paused.
    """
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = loop.time()
        table.unauthenticated.close_overdue(now)
        for some in chunks(list(table.connections)):
            for connection in some:
                _sweep(connection, limits, now)
            await turn()


def _sweep(connection: Connection, limits: ConnectionLimits, now: float) -> None:
    if connection.is_stalled(now, STALLED_WRITE_SECONDS):
        connection.close_now("does not read its responses")
        return
    active_at = max(connection.last_active, connection.blocked_output.last_read)
    if 0 <= limits.idle_ms_max < (now - active_at) * 1000 and not connection.work:
        connection.close("idle for connections.max.idle.ms")
