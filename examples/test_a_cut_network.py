"""A test in virtual time: the network is cut for a minute, and the test takes a second.

`pytest examples/test_a_cut_network.py` runs it. The broker is kwire's own; network, disk and clock are simulated from a
seed, so that a failure comes back with its seed.
"""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kwire.simulation import Simulation


@pytest.mark.parametrize("seed", range(3))
def test_a_producer_waits_until_the_network_is_back(seed: int) -> None:
    with Simulation(seed=seed, own_machine=True) as simulation:
        broker = simulation.broker("broker-1", {"offsets.topic.num.partitions": 1})

        async def scenario() -> list[bytes]:
            await broker.start()
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_server, acks="all", enable_idempotence=True)
            await producer.start()
            await producer.send_and_wait("orders", b"before")
            simulation.network.isolate("broker-1")
            simulation.client.loop.call_later(60, simulation.network.heal)
            for value in (b"during", b"after"):
                await producer.send_and_wait("orders", value)
            await producer.stop()

            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_server, auto_offset_reset="earliest"
            )
            await consumer.start()
            found = [(await consumer.getone()).value for _ in range(3)]
            await consumer.stop()
            return found

        assert simulation.run(scenario(), seconds=600) == [b"before", b"during", b"after"]
        assert simulation.now >= 60
