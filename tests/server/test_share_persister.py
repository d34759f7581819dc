"""Persister of share groups' state: coordinators on this broker and on others, retries, and a coordinator that dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.cluster.channel import Destination, Unreachable
from kwire.cluster.metadata.image import NO_LEADER
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareSummary
from kwire.coordinator.share_coordinator import ShareCoordinator
from kwire.protocol.error_codes import ErrorCode, KafkaError
from kwire.protocol.messages.read_share_group_state import (
    ReadShareGroupStateBatch,
    ReadShareGroupStatePartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from kwire.server.other_nodes.other_brokers import OtherBrokers
from kwire.server.other_nodes.share_persister import PATIENCE_MS, SharePersister
from kwire.simulation import Simulation
from tests.support.requests import create_request
from tests.virtual_loop import VirtualClock, virtual_loop

HERE, THERE = 1, 2
TOPIC_ID = UUID(int=7)
E = ErrorCode


class ThereChannel:
    """Broker that answers reads with the partition's number as its start offset, after an error if there is one."""

    def __init__(self, errors: Iterable[ErrorCode] = ()) -> None:
        self.requests: list[Any] = []
        self.errors = list(errors)
        self.is_reachable = True

    async def send(self, destination: Destination, request: Any) -> Any:
        assert destination == Destination(THERE, "there", 9092)
        self.requests.append(request)
        await asyncio.sleep(0.1)
        if not self.is_reachable:
            raise Unreachable("connection refused")
        assert isinstance(request, ReadShareGroupStateRequest)
        code = self.errors.pop(0) if self.errors else E.NONE
        return ReadShareGroupStateResponse(
            results=[
                ReadStateResult(
                    topic_id=topic.topic_id,
                    partitions=[self._result(each.partition, code) for each in reversed(topic.partitions)],
                )
                for topic in request.topics
            ]
        )

    def _result(self, partition: int, code: ErrorCode) -> ReadShareGroupStatePartitionResult:
        batch = ReadShareGroupStateBatch(
            first_offset=partition, last_offset=partition, delivery_state=2, delivery_count=1
        )
        return ReadShareGroupStatePartitionResult(
            partition=partition,
            error_code=code,
            error_message=code.name,
            state_epoch=4,
            start_offset=partition,
            state_batches=[batch],
        )


class Scene:
    """Persister of broker 1, in a cluster whose share coordinator is broker 2."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: ThereChannel, *, has_topic: bool = True) -> None:
        broker = SimpleNamespace(endpoints=[SimpleNamespace(name="PLAINTEXT", host="there", port=9092)])
        self.shards = SimpleNamespace(partitions=[SimpleNamespace(leader=THERE)])
        self.image = SimpleNamespace(brokers={THERE: broker}, topics={})
        self.created: list[str] = []
        if has_topic:
            self.image.topics[SHARE_STATE_TOPIC] = self.shards
        others = OtherBrokers(
            broker_id=HERE, listener_name="PLAINTEXT", image=lambda: cast("Any", self.image), channel=channel
        )
        here = cast("ShareCoordinator", SimpleNamespace(partition_for=lambda _: 0, read_summary=self._summary))
        self.persister = SharePersister(here, others, create_topic=self._create, clock=VirtualClock(loop))

    async def _create(self, names: Iterable[str]) -> Mapping[str, KafkaError]:
        self.created += names
        self.image.topics[SHARE_STATE_TOPIC] = self.shards
        return {}

    def _summary(self, key: ShareKey) -> ShareSummary:
        return ShareSummary(1, 2, key.partition, 4)


def test_many_reads_for_a_broker_take_a_request_for_each_group() -> None:
    async def read_many(scene: Scene, channel: ThereChannel) -> None:
        read = scene.persister.read_state
        reads = [read(group, TOPIC_ID, partition, 0) for group in "ab" for partition in range(100)]
        states = await asyncio.gather(*reads)
        assert [state.start_offset for state in states] == 2 * list(range(100))
        assert states[5] == (4, 5, [(5, 5, 2, 1)])
        assert [request.group_id for request in channel.requests] == ["a", "b"]
        assert not scene.created

    with virtual_loop() as loop:
        channel = ThereChannel()
        loop.run_until_complete(read_many(Scene(loop, channel), channel))


@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_moves_is_asked_again(code: ErrorCode) -> None:
    async def read(scene: Scene, channel: ThereChannel) -> None:
        state = await scene.persister.read_state("g", TOPIC_ID, 3, 0)
        assert (state.start_offset, len(channel.requests)) == (3, 4)

    with virtual_loop() as loop:
        channel = ThereChannel([code] * 3)
        loop.run_until_complete(read(Scene(loop, channel), channel))


def test_other_errors_are_raised_at_once() -> None:
    async def read(scene: Scene, channel: ThereChannel) -> None:
        with pytest.raises(KafkaError) as error:
            await scene.persister.read_state("g", TOPIC_ID, 3, 0)
        assert (error.value.code, error.value.message) == (E.FENCED_LEADER_EPOCH, "FENCED_LEADER_EPOCH")
        assert len(channel.requests) == 1

    with virtual_loop() as loop:
        channel = ThereChannel([E.FENCED_LEADER_EPOCH])
        loop.run_until_complete(read(Scene(loop, channel), channel))


def test_the_attempts_end_after_a_while() -> None:
    async def read(scene: Scene, channel: ThereChannel, loop: asyncio.AbstractEventLoop) -> None:
        channel.is_reachable = False
        with pytest.raises(KafkaError) as error:
            await scene.persister.read_state("g", TOPIC_ID, 3, 0)
        assert (error.value.code, error.value.message) == (E.COORDINATOR_NOT_AVAILABLE, "connection refused")
        assert 0.9 * PATIENCE_MS <= loop.time() * 1000 <= PATIENCE_MS
        assert len(channel.requests) < 40
        scene.shards.partitions[0].leader = NO_LEADER
        with pytest.raises(KafkaError) as error:
            await scene.persister.read_state("g", TOPIC_ID, 3, 0)
        assert error.value.code is E.COORDINATOR_NOT_AVAILABLE

    with virtual_loop() as loop:
        channel = ThereChannel()
        loop.run_until_complete(read(Scene(loop, channel), channel, loop))


def test_a_coordinator_of_this_broker_is_called_without_a_request() -> None:
    async def read(scene: Scene, channel: ThereChannel) -> None:
        scene.shards.partitions[0].leader = HERE
        assert await scene.persister.read_summary("g", TOPIC_ID, 3, 0) == (1, 2, 3, 4)
        assert scene.created == [SHARE_STATE_TOPIC]
        assert not channel.requests

    with virtual_loop() as loop:
        channel = ThereChannel()
        loop.run_until_complete(read(Scene(loop, channel, has_topic=False), channel))


class Cluster:
    """Three simulated brokers, a topic, and a single share coordinator."""

    def __init__(self, simulation: Simulation, **config: Any) -> None:
        few = {"share.coordinator.state.topic.num.partitions": 1, "broker.session.timeout.ms": 6_000}
        self.cluster = simulation.cluster(brokers=3, controllers=1, config=few | config, as_objects=True)

    def services(self, broker_id: int) -> Any:
        return self.cluster.brokers[broker_id - 1].server.services

    def persister(self, broker_id: int) -> SharePersister:
        found: SharePersister = self.services(broker_id).share_persister
        return found

    async def start(self) -> UUID:
        """Start the brokers; return the id of a topic that all of them know."""
        await self.cluster.start()
        response = await self.services(1).active_controller.send_until_answered(create_request("t", replicas=3))
        topic_id: UUID = response.topics[0].topic_id
        while any(self.services(each).image.topic_by_id(topic_id) is None for each in (1, 2, 3)):
            await asyncio.sleep(0.1)
        return topic_id

    def kill_coordinator(self) -> list[int]:
        """Kill the broker of the share coordinator; return the other brokers."""
        (partition,) = self.services(1).image.topics[SHARE_STATE_TOPIC].partitions
        assert len(partition.replicas) == 3
        self.cluster.brokers[partition.leader - 1].kill()
        return [each for each in (1, 2, 3) if each != partition.leader]

    def log_starts(self) -> set[int]:
        logs = [self.services(each).partitions.get(SHARE_STATE_TOPIC, 0).log for each in (1, 2, 3)]
        return {log.log_start_offset for log in logs}


def test_state_moves_to_another_broker_when_its_coordinator_is_killed() -> None:
    """Three brokers store, read and delete through each other, before and after the coordinator's broker dies."""
    with Simulation(7) as simulation:
        scene = Cluster(simulation)

        async def acts() -> None:
            topic_id = await scene.start()
            for broker_id in (1, 2, 3):
                group, persister = f"g{broker_id}", scene.persister(broker_id)
                await persister.initialize_state(group, topic_id, 0, 1, 10)
                await persister.write_state(group, topic_id, 0, 1, 0, 10, 2, [(10, 14, 2, 1), (15, 15, 0, 2)])
            alive = scene.kill_coordinator()
            for broker_id in alive:
                persister = scene.persister(broker_id)
                for group in ("g1", "g2", "g3"):
                    state = await persister.read_state(group, topic_id, 0, broker_id)
                    assert (state.state_epoch, state.start_offset) == (1, 10)
                    assert list(state.batches) == [(10, 14, 2, 1), (15, 15, 0, 2)]
                    assert await persister.read_summary(group, topic_id, 0, broker_id) == (1, broker_id, 10, 2)
            first, second = map(scene.persister, alive)
            with pytest.raises(KafkaError) as error:
                await first.read_state("g1", topic_id, 0, 0)
            assert error.value.code is E.FENCED_LEADER_EPOCH
            await second.delete_state("g1", topic_id, 0)
            assert (await first.read_summary("g1", topic_id, 0, 0)).start_offset == -1

        simulation.run(acts(), seconds=600)


def test_another_broker_loads_a_pruned_log() -> None:
    """The log start of all replicas moves, and the records after it are enough for the next coordinator."""
    config = {
        "share.coordinator.snapshot.update.records.per.snapshot": 3,
        "share.coordinator.state.topic.prune.interval.ms": 2_000,
    }
    with Simulation(11) as simulation:
        scene = Cluster(simulation, **config)

        async def acts() -> None:
            topic_id = await scene.start()
            persister = scene.persister(1)
            for group in "ab":
                await persister.initialize_state(group, topic_id, 0, 0, 0)
            for offset in range(20):
                for group in "ab":
                    await persister.write_state(group, topic_id, 0, 0, 0, -1, offset, [(offset, offset, 2, 1)])
            await asyncio.sleep(10)
            (log_start_offset,) = scene.log_starts()
            assert log_start_offset > 20
            alive = scene.kill_coordinator()
            for group in "ab":
                state = await scene.persister(alive[0]).read_state(group, topic_id, 0, 1)
                assert list(state.batches) == [(0, 19, 2, 1)]

        simulation.run(acts(), seconds=600)
