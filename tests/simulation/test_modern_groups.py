"""Clients of share, consumer and streams groups in a simulated cluster, and the checks of their histories."""

from __future__ import annotations

import pytest

from kwire.simulation import Simulation
from tests.history.operations import INFO, OK, Own
from tests.history.share_events import Delivery, Sent
from tests.simulation.cluster import run_seed
from tests.simulation.cluster_history import History
from tests.simulation.consumer_members import RULES
from tests.simulation.share_history import ShareHistory

QUIET_SECONDS = 12.0


@pytest.mark.long
def test_members_of_all_kinds_work_in_a_cluster_without_crashes() -> None:
    outcome = run_seed(4, QUIET_SECONDS, kinds=("slow_network",))
    assert min(outcome.deliveries, outcome.acknowledgements, outcome.owned, outcome.tasks) > 0


def test_a_partition_with_two_owners_in_an_epoch_breaks_the_invariant() -> None:
    with Simulation(seed=1) as simulation:
        history = History(simulation, RULES)
        for member, outcome in (("a", INFO), ("b", OK)):
            own = history.begin(Own(process=member, group="g", generation=7, keys=["t-0"]))
            history.end(own, outcome)
        with pytest.raises(AssertionError, match="G1: double owner"):
            history.judge()


def test_an_anomaly_of_the_share_group_breaks_its_invariant() -> None:
    with Simulation(seed=1) as simulation:
        history = ShareHistory(simulation, [], lock_seconds=1.0, limit=2)
        history.note(Sent(invoked=0, completed=1, first=0, last=0))
        history.check(is_drained=False)
        with pytest.raises(AssertionError, match="A4: lost record: 0:0"):
            history.check(is_drained=True)
        history.note(
            Delivery(invoked=1, completed=2, session="a", first=0, last=0, count=3, lease=None, leader_epoch=None)
        )
        with pytest.raises(AssertionError, match="A2: delivery limit exceeded: 0:0"):
            history.check(is_drained=True)
        assert (history.deliveries, history.acknowledgements) == (1, 0)
