"""Clusters of production brokers and controllers, by seed; python -m tests.simulation.cluster runs more of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.simulation import Simulation
from tests.simulation.cluster import run_seed
from tests.simulation.many import Result, run_many
from tests.simulation.promise import NEVER_FLUSH, Promise
from tests.simulation.regressions import regressions
from tests.simulation.short_seeds import asked, by_length
from tests.support.requests import create_request

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 21)
REGRESSIONS = regressions("cluster")
SESSION_SECONDS = 9.0
QUIET_EVENTS_MAX = 10_000
"""Maximum number of events in 20 seconds of an idle cluster."""
EVENTS_MAX = 50_000
"""Maximum number of events in 20 seconds of a broker that requests votes and searches for peers; it must pause."""


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[int, Result]:
    return {result.seed: result for result in run_many("cluster", asked(request))}


@pytest.mark.parametrize("seed", by_length(SEEDS))
def test_a_cluster_keeps_its_promises_under_faults(seed: int, results: dict[int, Result]) -> None:
    outcome = results[seed].outcome
    assert outcome is not None, results[seed].failure
    assert outcome.faults >= 5
    assert outcome.operations >= 1000
    assert min(outcome.sends, outcome.transactions, outcome.topics) > 0


@pytest.mark.long
def test_seeds_are_of_all_kinds(results: dict[int, Result]) -> None:
    outcomes = [result.outcome for result in results.values() if result.outcome is not None]
    assert {outcome.promise for outcome in outcomes} == {"flushed", "written", "bounded", "beyond"}
    assert sum(outcome.acknowledged for outcome in outcomes) > 100 * len(outcomes)
    assert all(sum(getattr(outcome, name) for outcome in outcomes) > 0 for name in ("commits", "deleted"))
    assert sum(outcome.shares for outcome in outcomes) > 3 * len(outcomes), "groups seldom settle between faults"
    for kind in ("deliveries", "acknowledgements", "owned", "tasks"):
        assert sum(getattr(outcome, kind) for outcome in outcomes) > 10 * len(outcomes), kind
    transactions = sum(outcome.transactions for outcome in outcomes)
    classic = sum(outcome.classic for outcome in outcomes)
    assert transactions / 4 < classic < 3 * transactions / 4


@pytest.mark.long
@pytest.mark.parametrize("seed", [each.seed for each in REGRESSIONS])
def test_seeds_that_failed_earlier_pass(seed: int, results: dict[int, Result]) -> None:
    assert results[seed].outcome is not None, results[seed].failure


def test_a_failing_seed_prints_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("nobody heals it")

    monkeypatch.setattr("tests.simulation.cluster_end.Healed.until", never)
    with pytest.raises(AssertionError) as caught:
        run_seed(3, 1.0)
    assert "python -m tests.simulation.cluster --seed 3 --seconds 1.0" in caught.value.__notes__


def test_without_flushes_a_power_cut_breaks_a_rule() -> None:
    """Otherwise the test above would prove nothing."""
    with pytest.raises(AssertionError, match=r"^(R1|R2|R6|G4|R15|S2)"):
        run_seed(2, 20.0, kinds=("blackout",), promise=Promise(name="too much", flush_messages=NEVER_FLUSH))


def test_a_seed_gives_the_same_run_in_any_process() -> None:
    here = run_seed(3, 10.0)
    program = "from tests.simulation.cluster import run_seed; print(run_seed(3, 10.0).digest)"
    environment = os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == here.digest


def test_a_fenced_broker_leads_nothing_and_is_not_in_metadata() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=2, controllers=3)
        away, here = cluster.brokers

        async def scenario() -> None:
            await cluster.start()
            client = await simulation.connect(here)
            assert (await client.ask(create_request("orders", 4), 7)).topics[0].error_code == ErrorCode.NONE
            simulation.network.isolate(away.name)
            await asyncio.sleep(SESSION_SECONDS + 4)
            metadata = await client.ask(MetadataRequest(topics=None), 12)
            assert {broker.node_id for broker in metadata.brokers} == {here.node_id}
            assert {part.leader_id for part in metadata.topics[0].partitions} == {here.node_id, NO_LEADER}
            simulation.network.heal()
            while len(metadata.brokers) < 2:
                await asyncio.sleep(0.1)
                metadata = await client.ask(MetadataRequest(topics=None), 12)
            assert {part.leader_id for part in metadata.topics[0].partitions} == {here.node_id, away.node_id}
            client.close()

        simulation.run(scenario(), seconds=120)


def test_a_broker_without_controllers_retries_with_a_backoff() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=0)
        simulation.run(cluster.start())
        for broker in cluster.brokers:
            broker.kill()
        one, other, _ = cluster.brokers

        async def begin() -> None:
            one.begin()
            other.begin()

        simulation.run(begin())
        while (leader := cluster.active_controller) is None:
            simulation.advance(0.1)
        waits = one if leader is other else other
        simulation.advance(1)
        assert not waits.is_serving, "the session of the process before is not over"
        leader.kill()
        events = simulation.timeline.events
        simulation.advance(20)
        assert not waits.is_serving
        assert simulation.timeline.events - events < EVENTS_MAX
        simulation.run(cluster.start())
        simulation.advance(30)
        assert waits.is_serving


def test_a_former_active_controller_fences_no_broker() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=1, controllers=3, as_objects=True)
        simulation.run(cluster.start())
        first = cluster.active_controller
        assert first is not None
        simulation.network.isolate(first.name)
        while cluster.active_controller in (first, None):
            simulation.advance(0.1)
        simulation.network.heal()
        simulation.advance(SESSION_SECONDS)
        events = simulation.timeline.events
        simulation.advance(20)
        assert simulation.timeline.events - events < QUIET_EVENTS_MAX


def test_a_failed_topic_deletion_returns_an_error() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=1, controllers=1)
        (controller,) = cluster.controllers

        async def scenario() -> None:
            await cluster.start()
            client = await simulation.connect(cluster.brokers[0])
            await client.ask(create_request("orders"), 7)
            controller.host.device.fill(free_bytes=0)
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000)
            rejected = (await client.ask(request, 6)).responses[0]
            assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            controller.host.device.empty()
            client.close()

        simulation.run(scenario(), seconds=60)
        assert controller.metadata_log is not None
        assert "orders" in controller.metadata_log.image.topics
