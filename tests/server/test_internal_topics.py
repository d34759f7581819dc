"""Replica counts of the internal topics."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.cluster.topic_names import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.coordinator.shard import ShardState
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.simulation import Simulation, WireClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
MIN_ISR = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
COUNTS = (
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.num.partitions",
)
KEYS = ("a", "a", "a:AAAAAAAAAAAAAAAAAAAAAQ:0")


@pytest.mark.parametrize(
    ("brokers", "given", "replicas", "min_isr"),
    [
        (1, {}, 1, 1),
        (2, {}, 2, 1),
        (3, {}, 3, 2),
        (5, {}, 3, 2),
        (3, dict.fromkeys(FACTORS, 1), 1, 1),
        (3, dict.fromkeys(FACTORS, 2), 2, 2),
        (2, dict.fromkeys((*FACTORS, *MIN_ISR), 2), 2, 2),
    ],
)
def test_the_replication_factor_is_bounded_by_settings_and_brokers(
    brokers: int, given: dict[str, int], replicas: int, min_isr: int
) -> None:
    with Simulation(5) as simulation:
        config = given | dict.fromkeys(COUNTS, 1)
        cluster = simulation.cluster(brokers=brokers, controllers=1, config=config, as_objects=True)

        async def acts() -> None:
            await cluster.start()
            wire = await WireClient.connect(cluster.brokers[0].bootstrap_server, seconds=10)
            metadata_log = cluster.brokers[0].server.services.metadata_log
            for key_type, name in enumerate((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[KEYS[key_type]])
                await wire.ask(request, 6, seconds=60)
                while name not in metadata_log.image.topics:
                    await asyncio.sleep(0.1)
                (partition,) = metadata_log.image.topics[name].partitions
                assert len(partition.replicas) == replicas
            wire.close()
            for name in (TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC):
                configs = metadata_log.image.config_of(ConfigResourceType.TOPIC, name)
                assert configs["min.insync.replicas"] == str(min_isr)
            assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")

        simulation.run(acts(), seconds=600)


def test_a_shard_that_could_not_be_loaded_is_loaded_in_the_next_leader_epoch(tmp_path: Path) -> None:
    few = {"offsets.topic.num.partitions": "1"}
    with RunningBroker(tmp_path, few) as broker, broker.client() as client:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
        eventually(lambda: client.ask(request, 6).coordinators[0].error_code == 0, "the coordinator")
        groups, partitions = broker.server.services.groups, broker.server.services.partitions

        def next_epoch() -> None:
            groups._runtime.active(0).close()
            partition = partitions.find(GROUP_OFFSETS_TOPIC, 0)
            image = dataclasses.replace(partition.image, leader_epoch=partition.image.leader_epoch + 1)
            partitions._update(partition, image, is_led=True)

        def is_active() -> bool:
            shard = groups._runtime.find(0)
            return shard is not None and shard.state is ShardState.ACTIVE

        broker.call(next_epoch)
        eventually(lambda: broker.call(is_active), "the shard to be loaded")


def test_brokers_with_all_directories_cordoned_do_not_count() -> None:
    """Broker 2 has cordoned all its log directories."""
    with Simulation(5) as simulation:
        few = {"offsets.topic.num.partitions": 1}
        cluster = simulation.cluster(brokers=2, controllers=1, config=few, as_objects=True)
        cluster.brokers[1]._settings["cordoned.log.dirs"] = "*"

        async def acts() -> None:
            await cluster.start()
            metadata_log = cluster.brokers[0].server.services.metadata_log
            wire = await WireClient.connect(cluster.brokers[0].bootstrap_server, seconds=10)
            while GROUP_OFFSETS_TOPIC not in metadata_log.image.topics:
                await wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["a"]), 4, seconds=60)
                await asyncio.sleep(0.1)
            wire.close()
            (partition,) = metadata_log.image.topics[GROUP_OFFSETS_TOPIC].partitions
            assert len(partition.replicas) == 1

        simulation.run(acts(), seconds=120)


def test_creation_waits_for_combined_nodes_that_have_not_registered() -> None:
    """Two of three combined nodes are up: otherwise the topic would keep one or two replicas forever."""
    with Simulation(5) as simulation:
        few = {"offsets.topic.num.partitions": 1}
        cluster = simulation.cluster(brokers=3, controllers=0, config=few, as_objects=True)

        async def acts() -> None:
            first, second, third = cluster.brokers
            await asyncio.gather(first.start(), second.start())
            metadata_log = first.server.services.metadata_log
            wire = await WireClient.connect(first.bootstrap_server, seconds=10)
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
            for _ in range(5):
                answer = await wire.ask(find, 4, seconds=60)
                assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                await asyncio.sleep(1)
            await third.start()
            while GROUP_OFFSETS_TOPIC not in metadata_log.image.topics:
                await wire.ask(find, 4, seconds=60)
                await asyncio.sleep(0.1)
            wire.close()
            (partition,) = metadata_log.image.topics[GROUP_OFFSETS_TOPIC].partitions
            assert set(partition.replicas) == {1, 2, 3}

        simulation.run(acts(), seconds=300)
