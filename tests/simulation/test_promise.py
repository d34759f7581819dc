"""Promised fault tolerance: which brokers of a simulated cluster may crash at once."""

from __future__ import annotations

import asyncio

from kwire.simulation import SimulatedCluster, Simulation
from tests.simulation.promise import NEVER_FLUSH, Crashes, Promise, newest_image

BOUNDED = Promise(name="bounded", flush_messages=NEVER_FLUSH, is_bounded=True)


async def all_live(cluster: SimulatedCluster) -> None:
    """Wait until all brokers serve, and none is fenced."""
    await cluster.start()
    while True:
        brokers = newest_image(cluster).brokers.values()
        if len(brokers) == len(cluster.brokers) and not any(broker.fenced for broker in brokers):
            return
        await asyncio.sleep(0.1)


def test_a_node_that_crashes_again_crashes_alone() -> None:
    with Simulation(seed=1) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=3)
        crashes = Crashes(cluster, BOUNDED)
        first, *others = cluster.brokers

        async def scenario() -> None:
            await all_live(cluster)
            for _ in range(3):
                assert [crashes.may(each) for each in cluster.brokers] == [True, False, False]
                first.power_off()
                assert not any(crashes.may(each) for each in others)
                await first.start()
                await asyncio.sleep(20)
                await all_live(cluster)
            assert [crashes.may(each) for each in others] == [True, False]
            assert not crashes.may(first)

        simulation.run(scenario(), seconds=300)
