"""Requests in flight to other nodes: one at a time to each node, and a backoff after each failure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kwire.cluster.channel import Destination

NODES_KEPT = 1000
"""Number of nodes above which idle ones are forgotten."""


@dataclass(slots=True)
class _Connection:
    correlation_id: int | None = None
    """Id of the request in flight."""
    sent_ms: float = -math.inf
    backoff_until_ms: float = -math.inf


class Connections:
    """Requests in flight, by node. A response that is no longer expected is ignored."""

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._connections: dict[int, _Connection] = {}
        self._expected: dict[int, tuple[Destination, Any]] = {}
        self._last_correlation_id = 0

    def reset(self) -> None:
        """Forget all requests in flight: their responses are no longer relevant."""
        self._connections.clear()
        self._expected.clear()

    def reset_node(self, node_id: int) -> None:
        """Forget the request in flight to one node."""
        connection = self._connections.pop(node_id, None)
        if connection is not None and connection.correlation_id is not None:
            self._expected.pop(connection.correlation_id, None)

    def has_timed_out(self, node_id: int, now_ms: float) -> bool:
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is not None
            and now_ms >= connection.sent_ms + self._request_timeout_ms
        )

    def is_backing_off(self, node_id: int, now_ms: float) -> bool:
        connection = self._connections.get(node_id)
        return connection is not None and now_ms < connection.backoff_until_ms

    def has_any_in_flight(self, now_ms: float) -> bool:
        return any(
            connection.correlation_id is not None and not self.has_timed_out(node_id, now_ms)
            for node_id, connection in self._connections.items()
        )

    def ready_at_ms(self, node_id: int) -> float:
        """Return when a request may be sent: in the past for now, after the backoff, or at the timeout."""
        connection = self._connections.get(node_id)
        if connection is None:
            return -math.inf
        if connection.correlation_id is not None:
            return connection.sent_ms + self._request_timeout_ms
        return connection.backoff_until_ms

    def first_ready(self, destinations: Sequence[Destination], now_ms: float) -> Destination | None:
        return next((it for it in destinations if self.ready_at_ms(it.node_id) <= now_ms), None)

    def sent(self, destination: Destination, request: Any, now_ms: float) -> int:
        """Record that a request is sent; return its correlation id."""
        self.reset_node(destination.node_id)
        if len(self._connections) >= NODES_KEPT:
            self._remove_idle(now_ms)
        self._last_correlation_id += 1
        self._connections[destination.node_id] = _Connection(self._last_correlation_id, now_ms)
        self._expected[self._last_correlation_id] = (destination, request)
        return self._last_correlation_id

    def _remove_idle(self, now_ms: float) -> None:
        """Forget idle nodes. Clients may have named nodes that are never used again (AddRaftVoter)."""
        self._connections = {
            node_id: connection
            for node_id, connection in self._connections.items()
            if connection.correlation_id is not None or now_ms < connection.backoff_until_ms
        }

    def expected(self, correlation_id: int) -> tuple[Destination, Any] | None:
        """Return the node and request with this id, if its response is still expected."""
        return self._expected.get(correlation_id)

    def back_off(self, node_id: int, now_ms: float) -> None:
        """Pause requests to a node: its response was unusable."""
        self.reset_node(node_id)
        self._connections[node_id] = _Connection(backoff_until_ms=now_ms + self._retry_backoff_ms)

    def finished(self, correlation_id: int, *, succeeded: bool, now_ms: float) -> None:
        """Record that a request has ended; it may have been forgotten meanwhile."""
        found = self._expected.pop(correlation_id, None)
        if found is None:
            return
        backoff_until = -math.inf if succeeded else now_ms + self._retry_backoff_ms
        self._connections[found[0].node_id] = _Connection(backoff_until_ms=backoff_until)
