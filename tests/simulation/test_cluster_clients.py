"""Clients of a simulated cluster: the guarantees that they check, and their limits."""

from __future__ import annotations

import asyncio

import pytest

from kwire.simulation import SimulatedCluster, Simulation
from tests.simulation.cluster_clients import Client, Shape
from tests.simulation.cluster_ledger import Ledger, PartitionKey
from tests.simulation.connections import Leader

AFTER, BEFORE = 1000, 2000
"""Offsets that no broker has reached."""


async def _make_topic(client: Client, ledger: Ledger) -> PartitionKey:
    """Create a topic with a random number of partitions, of which the first is used."""
    await client.create()
    ((name, (topic_id, _)),) = ledger.topics.items()
    ledger.topics[name] = topic_id, 1
    return topic_id, 0


async def _depose(simulation: Simulation, cluster: SimulatedCluster, client: Client, key: PartitionKey) -> Leader:
    """Isolate a partition's leader from all other nodes until another one leads; return the new leader."""
    old = new = await client.leader_of(key)
    assert old is not None
    away = cluster.brokers[old.broker_id - 1].name
    simulation.network.split([away], [node.name for node in cluster.nodes if node.name != away])
    while new is None or new.epoch == old.epoch:
        await asyncio.sleep(0.1)
        await client.look()
        new = await client.leader_of(key)
    return new


def test_the_leader_at_the_acknowledgement_and_later_leaders_must_have_a_record() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=2, controllers=1)
        ledger = Ledger()
        late, early = (Client(simulation, cluster.brokers, ledger, name, shapes=[Shape(2, 1)]) for name in "ab")

        async def scenario() -> None:
            await cluster.start()
            key = await _make_topic(late, ledger)
            while (old := await late.leader_of(key)) is None:  # some brokers do not have the topic yet
                await asyncio.sleep(0.1)
            ledger.acknowledge(key, BEFORE, b"before")
            new = await _depose(simulation, cluster, early, key)
            await early.produce()
            await early.produce()
            ledger.acknowledge(key, AFTER, b"after")
            assert await late.leader_of(key) == old != new

            with pytest.raises(AssertionError, match="R1: lost"):
                await late.read_from(key, BEFORE)
            assert await late.read_from(key, 1) is None, "who was deposed and has not heard of it cannot know"
            assert await early.leader_of(key) == new
            assert await early.read_from(key, 1) == 2
            for offset in (BEFORE, AFTER):
                with pytest.raises(AssertionError, match="R1: lost"):
                    await early.read_from(key, offset)
            late.close()
            early.close()

        simulation.run(scenario(), seconds=120)
