"""Rule of broker sessions: it finds a broker that would never be fenced."""

from __future__ import annotations

import pytest

from kwire.simulation import Simulation
from tests.simulation.heartbeat_rules import HeartbeatRules, broker_control


def test_a_broker_whose_session_is_not_watched_is_found() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=2, controllers=3)
        simulation.run(cluster.start(), seconds=60)
        simulation.advance(5)
        rules = HeartbeatRules(cluster)
        rules.look()
        active = cluster.active_controller
        assert active is not None
        sessions = broker_control(active)._sessions
        assert sessions is not None
        sessions._last_heartbeats.popitem()
        with pytest.raises(AssertionError, match="would never fence"):
            rules.look()
