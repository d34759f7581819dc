"""Connections of listeners with SASL whose clients have not authenticated: their number and their time are limited.

They are limited apart from other connections, so that clients without credentials leave room for those with some.
Connections at a listener of nodes only are counted apart, and do not count for the limit of all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.server.security.sasl.login_audit import LoginAudit

if TYPE_CHECKING:
    from kwire.server.network.connection import Connection

SECONDS_MAX: Final = 30.0
"""Longest time from the connection to the end of the authentication."""
PER_ADDRESS_MAX: Final = 100
"""Most connections from one address."""
SHARE_MAX: Final = 5
"""Divisor of max.connections: a fifth of them may be unauthenticated."""


class _Arrival(NamedTuple):
    """Listener of a connection, and the time of its arrival in seconds."""

    listener_name: str
    since: float


class UnauthenticatedConnections:
    """All connections of a server that have not authenticated, in the order of their arrival."""

    def __init__(self, audit: LoginAudit) -> None:
        self.audit = audit
        """Audit of the logins at all listeners of the server."""
        self._arrivals: dict[Connection, _Arrival] = {}
        self._per_host: Counter[tuple[str, bool]] = Counter()
        """Connections by address, apart for listeners of nodes only."""
        self._clients = 0
        """Connections at other listeners."""

    def __len__(self) -> int:
        return len(self._arrivals)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._arrivals

    def add(self, connection: Connection, listener_name: str, *, connections_max: int) -> None:
        """Add a new connection. If there are too many, it is closed."""
        self._arrivals[connection] = _Arrival(listener_name, connection.last_active)
        is_node = connection.share.is_node
        self._per_host[connection.peer_host, is_node] += 1
        self._clients += not is_node
        if self._per_host[connection.peer_host, is_node] > PER_ADDRESS_MAX:
            self._close(connection, "too many connections from this address have not authenticated")
        elif not is_node and self._clients > max(1, connections_max // SHARE_MAX):
            self._close(connection, "too many connections have not authenticated")

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is authenticated or closed; it may be absent."""
        if self._arrivals.pop(connection, None) is not None:
            counted = connection.peer_host, connection.share.is_node
            self._clients -= not connection.share.is_node
            self._per_host[counted] -= 1
            if not self._per_host[counted]:
                del self._per_host[counted]

    def close_overdue(self, now: float) -> None:
        """Close connections that take longer than SECONDS_MAX."""
        for connection, arrival in list(self._arrivals.items()):
            if now - arrival.since <= SECONDS_MAX:
                return
            self._close(connection, f"did not authenticate within {SECONDS_MAX:g} s")

    def fail(self, connection: Connection, reason: str) -> None:
        """Count a connection that ends before its first SASL token was checked."""
        self.audit.fail(
            host=connection.peer_host,
            listener=self._arrivals[connection].listener_name,
            mechanism="",
            user="",
            what="authentication",
            reason=reason,
            delay_ms=0,
        )

    def _close(self, connection: Connection, reason: str) -> None:
        self.fail(connection, reason)
        connection.close_now(reason)
