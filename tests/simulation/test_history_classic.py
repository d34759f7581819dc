"""Requests that a classic producer gave up: the history holds them as long as they may arrive, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kwire.simulation import SimulatedCluster, Simulation
from tests.history.operations import OK, End, Fault
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_clients import SHAPES
from tests.simulation.cluster_history import PARTITIONS, SECOND, TOPIC, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.history_classic import ClassicProducer

CLOG_SECONDS = 1.5
"""Delay longer than the producer's timeout."""
Play = Callable[[Simulation, SimulatedCluster, ClassicProducer], Coroutine[Any, Any, None]]


def history_of(play: Play) -> History:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=0)
        ledger, history = Ledger(), History(simulation)

        async def scenario() -> None:
            await cluster.start()
            administrator = Administrator(simulation, cluster.brokers, ledger, "admin", shapes=SHAPES)
            history.topic_id = await administrator.create_for_good(TOPIC, PARTITIONS)
            producer = ClassicProducer(simulation, cluster.brokers, ledger, history, "tx0")
            await producer.initialise()
            await producer.transact(commit=True)
            await producer.send("tx0/late")
            await play(simulation, cluster, producer)
            producer.close()
            administrator.close()

        simulation.run(scenario(), seconds=120)
    return history


def clog(simulation: Simulation, cluster: SimulatedCluster) -> None:
    for broker in cluster.brokers:
        simulation.network.clog("client", broker.name, CLOG_SECONDS)


def held(history: History) -> list[Fault]:
    return [each for each in history.operations if isinstance(each, Fault)]


def test_a_delayed_end_txn_is_pending_until_its_response() -> None:
    async def play(simulation: Simulation, cluster: SimulatedCluster, producer: ClassicProducer) -> None:
        clog(simulation, cluster)
        await producer.end("tx0/late", commit=True)
        await asyncio.sleep(30)

    history = history_of(play)
    end = next(each for each in history.operations if isinstance(each, End) and each.transaction == "tx0/late")
    assert end.outcome == OK
    fault = held(history)[0]
    assert (fault.what, fault.transactional_id, fault.outcome) == ("hold", "tx0", OK)
    assert CLOG_SECONDS * SECOND < fault.completed - fault.invoked < 10 * CLOG_SECONDS * SECOND


def test_a_request_to_a_process_that_ended_excuses_no_anomaly() -> None:
    async def play(simulation: Simulation, cluster: SimulatedCluster, producer: ClassicProducer) -> None:
        for broker in cluster.brokers:
            broker.pause()
        ending = asyncio.ensure_future(producer.end("tx0/late", commit=True))
        await asyncio.sleep(CLOG_SECONDS)
        for broker in cluster.brokers:
            broker.power_off()  # without a notice to its peers
        await cluster.start()
        await ending
        (fault,) = held(producer._history)
        assert fault.outcome != OK
        await producer.transact(commit=True)
        assert fault.outcome == OK

    history_of(play)
