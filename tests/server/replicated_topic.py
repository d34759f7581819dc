"""Simulated cluster with one replicated topic, and requests of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from kwire.cluster.partitions.partition import Partition
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.server.fetching.delayed_fetch import DelayedFetch
from kwire.server.fetching.session_watch import FollowerWatch
from kwire.simulation import SimulatedCluster, Simulation, WireClient
from tests.support.requests import batch, create_request, fetch_request, produce_request

LAG_MAX_MS = 2000
CONFIG = {
    "replica.fetch.max.bytes": 20_000,
    "replica.lag.time.max.ms": LAG_MAX_MS,
    "broker.session.timeout.ms": 60_000,
    "offsets.topic.num.partitions": 1,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
"""Broker config; the long session timeout prevents replica changes by the controller that a test does not want."""


def delete_records_request(offset: int, timeout_ms: int) -> DeleteRecordsRequest:
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    return DeleteRecordsRequest(topics=[asked], timeout_ms=timeout_ms)


class Scene:
    """Three brokers, three separate controllers, and a topic with a replica on each broker."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster: SimulatedCluster = simulation.cluster(brokers=3, controllers=3, config=CONFIG, as_objects=True)
        for broker in self.cluster.brokers:
            broker._settings["broker.rack"] = f"rack-{broker.node_id}"
        self.topic_id = UUID(int=0)
        self._wires: dict[int, WireClient] = {}

    async def start(self, **configs: Any) -> None:
        await self.cluster.start()
        answer = await self.ask(1, create_request("t", replicas=3, **configs), 7)
        self.topic_id = answer.topics[0].topic_id
        await self.until(lambda: all(broker.server.services.partitions.get("t", 0) for broker in self.cluster.brokers))

    async def ask(self, broker_id: int, request: Any, version: int, *, seconds: float = 60) -> Any:
        if broker_id not in self._wires:
            server = self.cluster.brokers[broker_id - 1].bootstrap_server
            self._wires[broker_id] = await WireClient.connect(server, seconds=10)
        return await self._wires[broker_id].ask(request, version, seconds=seconds)

    async def restart(self, broker_id: int) -> None:
        """Start a stopped or killed broker and reconnect its clients."""
        await self.cluster.brokers[broker_id - 1].start()
        wire = self._wires.pop(broker_id, None)
        if wire is not None:
            wire.close()

    async def until(self, holds: Callable[[], bool], seconds: float = 30) -> None:
        deadline = self.simulation.now + seconds
        while not holds():
            assert self.simulation.now < deadline, "it does not come to hold"
            await asyncio.sleep(0.02)

    def partition(self, broker_id: int) -> Partition:
        found = self.cluster.brokers[broker_id - 1].server.services.partitions.get("t", 0)
        assert found is not None
        return found

    @property
    def leader(self) -> Partition:
        (leading,) = [each for each in map(self.partition, (1, 2, 3)) if each.is_led]
        return leading

    @property
    def leader_id(self) -> int:
        return self.leader.leader_id

    @property
    def followers(self) -> list[int]:
        return [broker for broker in (1, 2, 3) if broker != self.leader_id]

    def cut_off(self, *broker_ids: int) -> None:
        """Cut the network between the leader and these brokers, in both directions."""
        names = [self.cluster.brokers[broker - 1].name for broker in broker_ids]
        self.simulation.network.split([self.cluster.brokers[self.leader_id - 1].name], names, reason="cut")

    def heal(self) -> None:
        self.simulation.network.heal(reason="cut")

    async def produce(
        self, value: bytes, *, acks: int = -1, timeout_ms: int = 30_000, broker: int | None = None
    ) -> Any:
        request = produce_request("t", batch(value), acks=acks, timeout_ms=timeout_ms)
        answer = await self.ask(broker or self.leader_id, request, 11)
        return answer.responses[0].partition_responses[0]

    async def delete_records(self, offset: int, timeout_ms: int = 30_000) -> Any:
        request = delete_records_request(offset, timeout_ms)
        return (await self.ask(self.leader_id, request, 2, seconds=200)).topics[0].partitions[0]

    @property
    def waits_for_followers(self) -> bool:
        """Return True if a request on the leader waits for replication, and not only for data."""
        return any(not isinstance(waiter, DelayedFetch | FollowerWatch) for waiter in self.leader._log_end_waiters)

    async def throttle(self, *, bytes_per_second: int) -> None:
        """Limit the replication traffic of throttled replicas on all brokers."""
        await self.alter_all("leader.replication.throttled.rate", str(bytes_per_second))
        await self.until(lambda: self.cluster.brokers[self.leader_id - 1].server.services.leader_quota.limit < 2**62)

    async def alter_all(self, name: str, value: str) -> None:
        """Change a setting of all brokers."""
        config = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        answer = await self.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE

    async def fetch(self, broker: int, offset: int = 0, **rest: Any) -> Any:
        request = fetch_request("", offset, topic_id=self.topic_id, **rest)
        return (await self.ask(broker, request, 16)).responses[0].partitions[0]


def play(acts: Callable[[Scene], Awaitable[None]], **configs: Any) -> None:
    with Simulation(3) as simulation:
        scene = Scene(simulation)

        async def all_of_it() -> None:
            await scene.start(**configs)
            await acts(scene)

        simulation.run(all_of_it(), seconds=600)
