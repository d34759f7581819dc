"""Requests in flight, and the state that remains of nodes that receive no more requests."""

from __future__ import annotations

from kwire.cluster.channel import Destination
from kwire.cluster.quorum.connections import NODES_KEPT, Connections


def test_nodes_without_pending_requests_are_forgotten() -> None:
    connections = Connections(request_timeout_ms=1000, retry_backoff_ms=20)
    waiting = connections.sent(Destination(-1, "h", 1), "request", 0.0)
    for number in range(3 * NODES_KEPT):
        sent = connections.sent(Destination(number, "h", 1), "request", float(number))
        connections.finished(sent, succeeded=False, now_ms=float(number))
    assert len(connections._connections) <= NODES_KEPT
    assert connections.is_backing_off(3 * NODES_KEPT - 1, 3.0 * NODES_KEPT)
    assert connections.expected(waiting) is not None
