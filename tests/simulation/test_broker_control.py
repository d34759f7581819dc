"""Brokers that register with simulated controllers, stay unfenced with heartbeats, and are fenced without them."""

from __future__ import annotations

import asyncio
import errno
from typing import Any
from uuid import UUID

from kwire.log.disk import DiskFailure
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.simulation import Simulation, WireClient
from kwire.simulation.controllers import CLUSTER_ID, PORT, SimulatedController
from kwire.simulation.device import failure

SESSION_SECONDS = 9
FEATURES = (
    ("metadata.version", 30, 30),
    ("eligible.leader.replicas.version", 0, 1),
    ("group.version", 0, 1),
    ("share.version", 0, 1),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
    ("kraft.version", 0, 1),
)


def registration(broker_id: int, incarnation: int = 1, **changes: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=incarnation),
        "listeners": [BrokerRegistrationListener(name="PLAINTEXT", host="h", port=9092)],
        "features": [
            BrokerRegistrationFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in FEATURES
        ],
        "log_dirs": [UUID(int=5000 + broker_id)],
    }
    return BrokerRegistrationRequest(**(fields | changes))


class Cluster:
    """Three controllers, and a client of the current leader."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.nodes = simulation.quorum(3)

    async def start(self) -> None:
        await asyncio.gather(*(node.start() for node in self.nodes))

    def leader(self) -> SimulatedController | None:
        active = [node for node in self.nodes if node.is_serving and node.server.metadata_log.is_active]
        return max(active, key=lambda node: node.server.metadata_log.epoch, default=None)

    async def ask(self, request: Any, version: int, node: SimulatedController | None = None) -> Any:
        """Return the response of a node, or of the leader, once there is one."""
        while (asked := node or self.leader()) is None:
            await asyncio.sleep(0.1)
        client = await WireClient.connect(f"{asked.host.name}:{PORT}")
        try:
            return await client.ask(request, version)
        finally:
            client.close()

    async def beat(self, broker_id: int, epoch: int, **changes: Any) -> Any:
        """Send a heartbeat of a broker that has applied all metadata."""
        leader = self.leader()
        offset = leader.server.metadata_log.image.offset if leader else -1
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset, **changes
        )
        return await self.ask(request, 1)

    def is_fenced(self, broker_id: int) -> bool:
        leader = self.leader()
        assert leader is not None
        return leader.server.metadata_log.image.brokers[broker_id].fenced


def run(scenario: Any, seed: int = 5) -> None:
    with Simulation(seed) as simulation:
        cluster = Cluster(simulation)

        async def main() -> None:
            await cluster.start()
            await scenario(cluster)

        simulation.run(main(), seconds=600)


def test_a_broker_registers_is_unfenced_and_is_fenced_without_heartbeats() -> None:
    async def scenario(cluster: Cluster) -> None:
        registered = await cluster.ask(registration(7), 4)
        assert registered.error_code == ErrorCode.NONE
        assert cluster.is_fenced(7)
        first = await cluster.beat(7, registered.broker_epoch)
        assert (first.error_code, first.is_fenced, first.is_caught_up) == (ErrorCode.NONE, False, True)
        for _ in range(2 * SESSION_SECONDS):
            await asyncio.sleep(1)
            await cluster.beat(7, registered.broker_epoch)
        assert not cluster.is_fenced(7)
        await asyncio.sleep(SESSION_SECONDS - 1)
        assert not cluster.is_fenced(7)
        await asyncio.sleep(3)
        assert cluster.is_fenced(7)
        assert not (await cluster.beat(7, registered.broker_epoch)).is_fenced, "it comes back with the next heartbeat"

    run(scenario)


def test_another_process_waits_until_the_session_of_the_first_is_over() -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.ask(registration(7), 4)
        await cluster.beat(7, first.broker_epoch)
        rejected = await cluster.ask(registration(7, incarnation=2), 4)
        assert rejected.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        again = await cluster.ask(registration(7), 4)
        assert again.broker_epoch == first.broker_epoch
        await asyncio.sleep(SESSION_SECONDS + 3)
        second = await cluster.ask(registration(7, incarnation=2), 4)
        assert second.error_code == ErrorCode.NONE
        assert second.broker_epoch > first.broker_epoch
        assert (await cluster.beat(7, first.broker_epoch)).error_code == ErrorCode.STALE_BROKER_EPOCH

    run(scenario)


def test_invalid_registrations_are_rejected_and_the_controller_continues() -> None:
    async def scenario(cluster: Cluster) -> None:
        while (leader := cluster.leader()) is None:
            await asyncio.sleep(0.1)
        other = next(node for node in cluster.nodes if node is not leader)
        for request, node, code in (
            (registration(7, cluster_id="another"), None, ErrorCode.INCONSISTENT_CLUSTER_ID),
            (registration(7, features=[]), None, ErrorCode.INVALID_REGISTRATION),
            (registration(7, log_dirs=[]), None, ErrorCode.INVALID_REGISTRATION),
            (registration(7), other, ErrorCode.NOT_CONTROLLER),
        ):
            assert (await cluster.ask(request, 4, node)).error_code == code
        assert (await cluster.beat(7, 0)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert (await cluster.ask(registration(7), 4)).error_code == ErrorCode.NONE

    run(scenario)


def test_producer_ids_and_brokers_outlive_the_leader() -> None:
    async def scenario(cluster: Cluster) -> None:
        epoch = (await cluster.ask(registration(7), 4)).broker_epoch
        await cluster.beat(7, epoch)
        blocks = [await cluster.ask(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch), 0)]
        leader = cluster.leader()
        assert leader is not None
        leader.kill()
        assert not (await cluster.beat(7, epoch)).is_fenced
        blocks.append(await cluster.ask(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch), 0))
        assert [block.error_code for block in blocks] == [ErrorCode.NONE] * 2
        starts = [block.producer_id_start for block in blocks]
        assert starts[1] >= starts[0] + blocks[0].producer_id_len
        stale = await cluster.ask(AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch + 1), 0)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert (await cluster.ask(UnregisterBrokerRequest(broker_id=7), 0)).error_code == ErrorCode.NONE
        unknown = await cluster.ask(UnregisterBrokerRequest(broker_id=7), 0)
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    run(scenario)


def test_a_broker_without_leaderships_may_shut_down() -> None:
    async def scenario(cluster: Cluster) -> None:
        epoch = (await cluster.ask(registration(7), 4)).broker_epoch
        await cluster.beat(7, epoch)
        answer = await cluster.beat(7, epoch, want_shut_down=True)
        assert (answer.should_shut_down, answer.is_fenced) == (True, True)
        assert cluster.is_fenced(7)

    run(scenario)


def test_every_controller_registers_and_again_after_a_restart() -> None:
    async def scenario(cluster: Cluster) -> None:
        def known() -> dict[int, UUID]:
            leader = cluster.leader()
            image = leader.server.metadata_log.image if leader is not None else None
            found = image.controllers.values() if image is not None else ()
            return {each.controller_id: each.incarnation_id for each in found}

        while set(known()) != {1, 2, 3}:
            await asyncio.sleep(0.1)
        before = known()
        follower = next(node for node in cluster.nodes if node is not cluster.leader())
        follower.kill()
        await follower.start()
        while known().get(follower.node_id) == before[follower.node_id]:
            await asyncio.sleep(0.1)
        assert {node: known()[node] for node in before if node != follower.node_id} == {
            node: incarnation for node, incarnation in before.items() if node != follower.node_id
        }

    run(scenario)


def test_a_topic_written_before_the_disk_was_full_is_not_acknowledged() -> None:
    """The disk has space for the record of the first topic; at the second, another controller takes over."""

    async def scenario(cluster: Cluster) -> None:
        answer = await cluster.ask(registration(1), 4)
        while (await cluster.beat(1, answer.broker_epoch)).is_fenced:
            await asyncio.sleep(0.1)
        leader = cluster.leader()
        assert leader is not None
        taken: list[str] = []

        def full(operation: str, path: str) -> DiskFailure | None:
            if operation != "append" or not path.endswith(".log"):
                return None
            taken.append(path)
            return failure(operation, path, errno.ENOSPC) if len(taken) > 1 else None

        leader.host.device.faults.append(full)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")]
        made = await cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7, leader)
        assert [topic.error_code for topic in made.topics] == [ErrorCode.NOT_CONTROLLER] * 2
        while (successor := cluster.leader()) is None or successor is leader:
            await asyncio.sleep(0.1)

    run(scenario)
