"""A broker whose event loop was held for long gives its leadership up, where others can take all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing

import pytest

from kwire.cluster.image import PartitionImage
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.simulation import Simulation
from kwire.simulation.brokers import SimulatedBroker

SESSION_SECONDS = 9.0
THIRD_MS = SESSION_SECONDS * 1000 / 3


async def leader_of_topic(simulation: Simulation, brokers: Sequence[SimulatedBroker], replicas: int) -> SimulatedBroker:
    """Make topic t with so many replicas; the broker that leads its partition."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=replicas)
    with closing(await simulation.connect(brokers[0])) as client:
        made = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert made.topics[0].error_code == 0
    while (found := partition(brokers[0])) is None or len(found.isr) < replicas:
        await asyncio.sleep(0.05)
    return brokers[found.leader - 1]


def partition(seen_by: SimulatedBroker) -> PartitionImage | None:
    log = seen_by.metadata_log
    topic = log.image.topics.get("t") if log is not None else None
    return topic.partitions[0] if topic is not None else None


@pytest.mark.parametrize(
    ("replicas", "held_ms", "gives_up"), [(3, THIRD_MS, True), (3, THIRD_MS - 1, False), (1, 60_000, False)]
)
def test_others_lead_for_a_session(
    replicas: int, held_ms: float, gives_up: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation(seed=5, own_machine=True) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=0)

        async def scenario() -> None:
            await cluster.start()
            leader = await leader_of_topic(simulation, cluster.brokers, replicas)
            number = cluster.brokers.index(leader) + 1
            other = cluster.brokers[number % 3]
            began = simulation.now
            leader.server._lifecycle.loop_was_held(held_ms)
            await asyncio.sleep(1)
            found = partition(other)
            assert found is not None
            assert (found.leader != number) is gives_up
            assert found.leader > 0
            if gives_up:
                while number not in found.isr:
                    await asyncio.sleep(0.1)
                    found = partition(other)
                    assert found is not None
                assert simulation.now - began >= SESSION_SECONDS
                assert found.leader != number, "it follows until somebody asks for the preferred leader"

        simulation.run(scenario(), seconds=60)
    assert ("others are asked to lead what this broker leads" in caplog.text) is gives_up
