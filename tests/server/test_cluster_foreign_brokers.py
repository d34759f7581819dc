"""Nodes of another cluster or version: they exit with a clear message or wait forever, and the cluster survives."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.directory import DirectoryRejected
from kwire.cluster.metadata.image import UnknownRecord
from kwire.cluster.metadata.prepared_records import prepare
from kwire.cluster.raft.metadata_log import MetadataLog
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata_records import FeatureLevelRecord, RemoveAccessControlEntryRecord
from kwire.server.settings.config import SettingError
from kwire.simulation import ClusterBroker, SimulatedCluster, Simulation
from kwire.simulation.clusters import FIRST_CONTROLLER_ID
from kwire.simulation.controllers import CLUSTER_ID, SimulatedController, voter_set
from tests.support.requests import create_request

REGISTRATION_SECONDS = 20
SETTINGS = {"initial.broker.registration.timeout.ms": str(1000 * REGISTRATION_SECONDS)}


def foreign_broker(
    simulation: Simulation, cluster: SimulatedCluster, *, node_id: int = 7, cluster_id: str = CLUSTER_ID
) -> ClusterBroker:
    """Create a broker on its own host, configured with the cluster's controllers."""
    voters = voter_set({FIRST_CONTROLLER_ID + at: node.name for at, node in enumerate(cluster.controllers)})
    return ClusterBroker(
        simulation.host("foreign"), SETTINGS, node_id=node_id, voters=voters, directory=5, cluster_id=cluster_id
    )


async def still_works(simulation: Simulation, cluster: SimulatedCluster, name: str) -> None:
    """Check that the cluster creates a topic."""
    client = await simulation.connect(cluster.brokers[0])
    answer = await client.ask(create_request(name), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    client.close()
    assert all(node.is_serving and node.failure is None for node in cluster.nodes)


def test_a_broker_without_the_right_to_fetch_metadata_says_so() -> None:
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=0, controllers=1, config=authorizer)
        denied = foreign_broker(simulation, cluster)

        async def scenario() -> None:
            await cluster.start()
            with pytest.raises(SettingError, match=r"super\.users: the controllers deny requests of this node"):
                await denied.start()

        simulation.run(scenario(), seconds=120)


def test_a_broker_of_another_cluster_does_not_start() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1)
        other = foreign_broker(simulation, cluster, cluster_id="another-cluster-000000")

        async def scenario() -> None:
            await cluster.start()
            with pytest.raises(SettingError, match=r"belong to cluster another-cluster-000000, but the contacted"):
                await other.start()
            await still_works(simulation, cluster, "after")

        simulation.run(scenario(), seconds=120)
        assert cluster.nodes[0].metadata_log is not None
        assert set(cluster.nodes[0].metadata_log.image.brokers) == {1}


def test_a_second_broker_with_the_same_id_waits_until_the_first_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=2)
        second = foreign_broker(simulation, cluster, node_id=2)

        async def scenario() -> None:
            await cluster.start()
            with pytest.raises(SettingError, match=r"node\.id: another broker with id 2 is registered and alive"):
                await second.start()
            reported = [
                record.getMessage() for record in caplog.records if "waits to be registered" in record.getMessage()
            ]
            assert len(reported) == 1
            assert "another broker with id 2 is registered and alive" in reported[0]
            await still_works(simulation, cluster, "after")
            caplog.clear()
            cluster.brokers[1].kill()
            await second.start()
            assert second.is_serving
            assert "waits to be registered" not in caplog.text, "a session that ends is waited for without a word"

        simulation.run(scenario(), seconds=300)


def test_a_node_with_a_voter_id_and_another_directory_id_does_not_vote() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1)
        lost = cluster.controllers[2]

        async def scenario() -> None:
            await cluster.start()
            lost.replace_disk()
            await lost.start()
            await asyncio.sleep(10)
            assert lost.metadata_log is not None
            quorum = lost.metadata_log.node.quorum
            assert not quorum.is_leader
            assert not quorum.history.voters.is_voter(lost.key)
            await still_works(simulation, cluster, "after")
            # The two original controllers are a majority of three: without one of them, the third node cannot elect a
            # leader.
            cluster.controllers[0].kill()
            await asyncio.sleep(20)
            assert cluster.active_controller is None

        simulation.run(scenario(), seconds=300)


def test_a_controller_of_another_cluster_is_not_elected() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1)
        hosts = {FIRST_CONTROLLER_ID + at: node.name for at, node in enumerate(cluster.controllers)}
        voters = voter_set(hosts | {FIRST_CONTROLLER_ID + 5: "foreign"})
        other = SimulatedController(
            simulation.host("foreign"), node_id=FIRST_CONTROLLER_ID + 5, voters=voters, config={},
            cluster_id="another-cluster-000000",
        )  # fmt: skip

        async def scenario() -> None:
            await cluster.start()
            await other.start()
            await asyncio.sleep(20)
            await still_works(simulation, cluster, "after")
            assert other.metadata_log is not None
            assert not other.metadata_log.is_active
            assert other.metadata_log.image.offset == -1

        simulation.run(scenario(), seconds=300)


async def write_what_is_unknown(metadata_log: MetadataLog, record: Any) -> None:
    """Append a record without its effect on the image, as newer software would."""
    metadata_log.node.append(prepare([record]))


@pytest.mark.parametrize("seconds_down", [0, 30])
@pytest.mark.parametrize(
    ("record", "words"),
    [
        (RemoveAccessControlEntryRecord(id=UUID(int=1)), "RemoveAccessControlEntryRecord"),
        (FeatureLevelRecord(name="metadata.version", feature_level=31), "metadata.version is at level 31"),
    ],
)
def test_an_unknown_metadata_record_stops_a_broker_and_not_the_controller(
    record: Any, words: str, seconds_down: int
) -> None:
    """The broker is running already, or starts after the record was written."""
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1, controllers=1)
        (broker,), (controller,) = cluster.brokers, cluster.controllers

        async def scenario() -> None:
            await cluster.start()
            if seconds_down:
                broker.kill()
                await asyncio.sleep(seconds_down)
            assert controller.metadata_log is not None
            assert controller.host.process is not None
            controller.host.process.run(write_what_is_unknown(controller.metadata_log, record))
            if seconds_down:
                with pytest.raises(DirectoryRejected, match=words):
                    await broker.start()
            else:
                await asyncio.sleep(10)
                assert isinstance(broker.failure, UnknownRecord)
            assert controller.is_serving
            assert controller.failure is None
            assert controller.metadata_log.is_active

        simulation.run(scenario(), seconds=300)
