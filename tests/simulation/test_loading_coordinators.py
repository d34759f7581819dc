"""Standard client with a loading coordinator: it gets the error code and retries; the application sees no error."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("aiokafka", reason="the client is others' own")

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from kwire.coordinator.loading import Loader
from kwire.coordinator.runtime import CoordinatorRuntime
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.simulation import SimulatedBroker, Simulation

LOADING_SECONDS = 5.0
CONFIG = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Counter[ErrorCode]:
    """Make loading slow and return the error codes of loading coordinators."""
    codes: Counter[ErrorCode] = Counter()
    load, active = Loader.run, CoordinatorRuntime.active

    async def load_late(loader: Loader) -> int:
        await asyncio.sleep(LOADING_SECONDS)
        return await load(loader)

    def active_or_told(runtime: CoordinatorRuntime[Any, Any], index: int) -> Any:
        try:
            return active(runtime, index)
        except KafkaError as error:
            codes[error.code] += 1
            raise

    monkeypatch.setattr(Loader, "run", load_late)
    monkeypatch.setattr(CoordinatorRuntime, "active", active_or_told)
    monkeypatch.setattr("kwire.coordinator.runtime.START_WAIT_S", 0.0)
    return codes


async def work(broker: SimulatedBroker) -> list[bytes]:
    """Commit a group's offsets and a transaction, before and after a restart; return the group's records."""
    servers = broker.bootstrap_server
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="till")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("orders", b"first")
    await consumer.start()
    values = [(await consumer.getone()).value]
    await consumer.commit()
    broker.kill()
    await broker.start()
    async with producer.transaction():
        await producer.send_and_wait("orders", b"second")
    values.append((await consumer.getone()).value)
    await consumer.commit()
    assert await consumer.committed(TopicPartition("orders", 0)) == 3, "two records, and a marker between them"
    await consumer.stop()
    await producer.stop()
    return values


def test_a_client_asks_a_loading_coordinator_again(told: Counter[ErrorCode]) -> None:
    with Simulation(seed=7, own_machine=True) as simulation:
        broker = simulation.broker("broker-1", CONFIG)

        async def scenario() -> list[bytes]:
            await broker.start()
            return await work(broker)

        assert simulation.run(scenario(), seconds=600) == [b"first", b"second"]
    assert told[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] > 1
