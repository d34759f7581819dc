"""Errors about the order of records: which of them a producer of a simulated cluster accepts."""

from __future__ import annotations

import asyncio

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.simulation import SimulatedCluster, Simulation
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_clients import SHAPES
from tests.simulation.cluster_history import PARTITIONS, TOPIC, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.connections import Leader
from tests.simulation.history_producers import Producer
from tests.simulation.history_worker import RejectedError

INDEX = 1


async def _depose(simulation: Simulation, cluster: SimulatedCluster, ledger: Ledger, old: Leader) -> Leader:
    """Isolate the partition's leader from all other nodes until another one leads; return the new leader."""
    away = cluster.brokers[old.broker_id - 1]
    simulation.network.split([away.name], [node.name for node in cluster.nodes if node is not away])
    others = [broker for broker in cluster.brokers if broker is not away]
    while True:
        await asyncio.sleep(0.1)
        for broker in others:
            partition = broker.server.services.partitions.get(TOPIC, INDEX)
            if partition is not None and partition.is_led:
                ledger.lead(partition.topic_id, INDEX, partition.leader_epoch, broker.node_id)
                return Leader(broker.node_id, partition.leader_epoch)


async def _disorder(producer: Producer, leader: Leader) -> RejectedError:
    """Return the outcome of OUT_OF_ORDER_SEQUENCE_NUMBER for the next record at that leader."""
    producer._leaders[INDEX] = leader
    with pytest.raises(RejectedError) as rejected:
        await producer.send_to(INDEX, None)
    assert rejected.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return rejected.value


def test_only_a_leader_deposed_before_the_last_record_may_lack_it() -> None:
    with Simulation(seed=5) as simulation:
        cluster = simulation.cluster(brokers=3, controllers=1)
        ledger, history = Ledger(), History(simulation)
        administrator = Administrator(simulation, cluster.brokers, ledger, "admin", shapes=SHAPES)
        producer = Producer(simulation, cluster.brokers, ledger, history, "p0")

        async def scenario() -> None:
            await cluster.start()
            history.topic_id = await administrator.create_for_good(TOPIC, PARTITIONS)
            await producer.initialise()
            await producer.send_to(INDEX, None)
            old = producer._leaders[INDEX]
            new = await _depose(simulation, cluster, ledger, old)
            # A client that has not received the election has the previous epoch.
            producer._leaders[INDEX] = late = new._replace(epoch=old.epoch)
            await producer.send_to(INDEX, None)

            producer._check_rejection(await _disorder(producer, old))

            leading = cluster.brokers[new.broker_id - 1].server.services.partitions.get(TOPIC, INDEX)
            assert leading is not None
            leading.log.producers.entries[producer._producer_id].batches.clear()
            with pytest.raises(AssertionError, match="T1: p0 is told"):
                producer._check_rejection(await _disorder(producer, late))
            producer.close()
            administrator.close()

        simulation.run(scenario(), seconds=120)
