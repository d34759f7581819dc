"""Brokers whose controllers are unreachable or have lost their registrations, and requests that need a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.simulation import SimulatedCluster, Simulation, WireClient
from kwire.simulation.brokers import SimulatedBroker
from kwire.simulation.controllers import PORT
from tests.support.requests import batch, create_request

E = ErrorCode
TOPIC_KIND = 2
CONFIG = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "request.timeout.ms": 2000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}


class Cluster:
    """Two brokers, a controller, and their clients."""

    def __init__(self, simulation: Simulation, controllers: int = 1, **config: Any) -> None:
        self.simulation = simulation
        given = CONFIG | {name.replace("_", "."): value for name, value in config.items()}
        self.cluster: SimulatedCluster = simulation.cluster(
            brokers=2, controllers=controllers, config=given, as_objects=True
        )
        self._wires: dict[int, WireClient] = {}

    async def ask(self, broker_id: int, request: Any, version: int) -> Any:
        if broker_id not in self._wires:
            server = self.cluster.brokers[broker_id - 1].bootstrap_server
            self._wires[broker_id] = await WireClient.connect(server, seconds=10)
        return await self._wires[broker_id].ask(request, version, seconds=120)

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        deadline = self.simulation.now + seconds
        while not holds():
            assert self.simulation.now < deadline, "it does not come to hold"
            await asyncio.sleep(0.05)

    def brokers_known_to(self, broker_id: int) -> dict[int, bool]:
        """Return the ids in one broker's metadata, and whether each is fenced."""
        image = self.cluster.brokers[broker_id - 1].server.services.image
        return {each.broker_id: each.fenced for each in image.brokers.values()}


def play(acts: Callable[[Cluster], Awaitable[None]], **config: Any) -> None:
    with Simulation(3) as simulation:
        cluster = Cluster(simulation, **config)

        async def all_of_it() -> None:
            await cluster.cluster.start()
            await acts(cluster)

        simulation.run(all_of_it(), seconds=600)


def test_a_broker_that_is_away_is_shown_as_fenced_and_unregistered_for_good() -> None:
    async def acts(cluster: Cluster) -> None:
        await cluster.until(lambda: cluster.brokers_known_to(1) == {1: False, 2: False})
        cluster.cluster.brokers[1].kill()
        await cluster.until(lambda: cluster.brokers_known_to(1) == {1: False, 2: True})
        living = await cluster.ask(1, DescribeClusterRequest(), 2)
        assert [each.broker_id for each in living.brokers] == [1]
        everybody = await cluster.ask(1, DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert {each.broker_id: each.is_fenced for each in everybody.brokers} == {1: False, 2: True}
        answer = await cluster.ask(1, UnregisterBrokerRequest(broker_id=2), 0)
        assert (answer.error_code, answer.error_message) == (E.NONE, "")
        await cluster.until(lambda: cluster.brokers_known_to(1) == {1: False})

    play(acts)


def test_a_running_broker_that_is_unregistered_logs_rejected_heartbeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def acts(cluster: Cluster) -> None:
        await cluster.until(lambda: cluster.brokers_known_to(1) == {1: False, 2: False})
        assert (await cluster.ask(1, UnregisterBrokerRequest(broker_id=2), 0)).error_code == E.NONE
        await cluster.until(lambda: "heartbeats are rejected: " in caplog.text)
        assert cluster.brokers_known_to(1) == {1: False}

    play(acts)


def test_without_a_controller_clients_get_a_retriable_error() -> None:
    async def acts(cluster: Cluster) -> None:
        assert (await cluster.ask(1, create_request("t"), 7)).topics[0].error_code == E.NONE
        (controller,) = [node for node in cluster.cluster.nodes if node not in cluster.cluster.brokers]
        controller.kill()
        found = await cluster.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == E.COORDINATOR_NOT_AVAILABLE
        named = [ElectLeadersTopicPartitions(topic="t", partitions=[0])]
        elected = await cluster.ask(1, ElectLeadersRequest(topic_partitions=named, timeout_ms=1000), 2)
        assert elected.error_code == E.REQUEST_TIMED_OUT
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=TOPIC_KIND, resource_name="t")
        altered = await cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert altered.responses[0].error_code == E.REQUEST_TIMED_OUT
        missing = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        assert (await cluster.ask(1, missing, 12)).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION

    play(acts)


def test_an_internal_topic_that_the_controller_rejects_leaves_no_coordinator() -> None:
    """The required replicas exceed the number of brokers."""

    async def acts(cluster: Cluster) -> None:
        found = await cluster.ask(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == E.COORDINATOR_NOT_AVAILABLE
        assert "__consumer_offsets" not in cluster.cluster.brokers[0].server.services.image.topics

    play(acts, offsets_topic_replication_factor=5)


def test_offsets_are_added_to_a_transaction_though_their_topic_is_not_there_yet() -> None:
    async def acts(cluster: Cluster) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        found: Any = None

        def is_found() -> bool:
            return found is not None and found.error_code == E.NONE

        while not is_found():
            found = (await cluster.ask(1, request, 4)).coordinators[0]
            await asyncio.sleep(0.1)
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        producer: Any = None
        while producer is None or producer.error_code:
            producer = await cluster.ask(found.node_id, init, 5)
            await asyncio.sleep(0.1)
        add = AddOffsetsToTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id="g",
        )
        assert (await cluster.ask(found.node_id, add, 3)).error_code == E.NONE
        assert "__consumer_offsets" in cluster.cluster.brokers[found.node_id - 1].server.services.image.topics

    play(acts)


def test_a_response_to_a_misrouted_producer_names_each_leader_once() -> None:
    async def acts(cluster: Cluster) -> None:
        await cluster.ask(1, create_request("t", 6, replicas=2), 7)
        brokers = [broker.server.services for broker in cluster.cluster.brokers]
        await cluster.until(lambda: all(each.partitions.get("t", 5) is not None for each in brokers))
        data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(6)]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
        answer = await cluster.ask(1, request, 11)
        partitions = answer.responses[0].partition_responses
        elsewhere = [each for each in partitions if each.error_code == E.NOT_LEADER_OR_FOLLOWER]
        assert len(elsewhere) > 1
        assert {each.current_leader.leader_id for each in elsewhere} == {2}
        assert [each.node_id for each in answer.node_endpoints] == [2]

    play(acts)


def test_a_controller_exposes_its_cluster_id_and_addresses() -> None:
    async def acts(cluster: Cluster) -> None:
        (controller,) = [node for node in cluster.cluster.nodes if node not in cluster.cluster.brokers]
        server: Any = controller.server
        assert server.cluster_id == cluster.cluster.brokers[0].server.services.cluster_id
        assert server.addresses == [f"{controller.name}:9093"]

    play(acts)


def test_only_the_active_controller_lists_reassignments() -> None:
    async def acts(cluster: Cluster) -> None:
        request = ListPartitionReassignmentsRequest(topics=None)
        listed = await cluster.ask(1, request, 0)
        assert (listed.error_code, listed.topics) == (E.NONE, [])
        active = cluster.cluster.active_controller
        (other,) = [node for node in cluster.cluster.nodes if node not in (active, *cluster.cluster.brokers)]
        wire = await WireClient.connect(f"{other.name}:{PORT}", seconds=10)
        assert (await wire.ask(request, 0)).error_code == E.NOT_CONTROLLER
        wire.close()

    play(acts, controllers=2)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_combined_node_leaves_the_quorum_when_its_callback_allows_it(*, leaves: bool) -> None:
    with Simulation(3) as simulation:
        cluster = simulation.cluster(brokers=2, controllers=0, config=CONFIG, as_objects=True)
        asked: list[bool] = []

        async def before_leaving() -> bool:
            asked.append(leaves)
            return leaves

        async def acts() -> None:
            await cluster.start()
            node = cluster.active_controller
            assert isinstance(node, SimulatedBroker)
            process = node.host.process
            assert process is not None
            stopped = process.run(node.server.stop(before_leaving=before_leaving))
            while not stopped.done():
                await asyncio.sleep(0.1)
            assert asked == [leaves]
            assert stopped.exception() is None
            node.host.kill()
            await node.start()
            assert node.failure is None

        simulation.run(acts(), seconds=600)
