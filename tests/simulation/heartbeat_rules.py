"""Rule of broker sessions: an unfenced broker without heartbeats is fenced (R21).

The active controller must watch the session of every broker that is unfenced in its newest image.
"""

from __future__ import annotations

from kwire.cluster.controller.broker_control import BrokerControl
from kwire.simulation import SimulatedCluster
from kwire.simulation.nodes import AnyNode


class HeartbeatRules:
    """Checks of the sessions on all serving controllers."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._voters = cluster.voters

    def look(self) -> None:
        """Raise AssertionError for an unfenced broker whose session is not watched."""
        for node in self._voters:
            if node.is_serving:
                unwatched = broker_control(node).unwatched_brokers()
                assert not unwatched, f"R21: {node.name} would never fence the brokers {unwatched}"


def broker_control(node: AnyNode) -> BrokerControl:
    """Return the BrokerControl of a controller or combined node."""
    server = node.server
    role = getattr(server, "_role", None) or getattr(server, "_controller")  # noqa: B009
    control: BrokerControl = role._brokers
    return control
