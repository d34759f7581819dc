"""Topics that a broker creates on a client's request.

If the broker's settings contain num.partitions and default.replication.factor, these apply; otherwise, the controller's
do.
"""

from __future__ import annotations

import asyncio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.simulation import Simulation
from tests.server.replicated_topic import Scene

PARTITIONS = "num.partitions"
REPLICATION = "default.replication.factor"


def test_settings_of_the_asked_broker_come_before_those_of_the_controller() -> None:
    with Simulation(3) as simulation:
        scene = Scene(simulation)
        of_brokers: tuple[dict[str, str], ...] = ({}, {PARTITIONS: "3", REPLICATION: "2"}, {PARTITIONS: "1"})
        for broker, settings in zip(scene.cluster.brokers, of_brokers, strict=True):
            broker._settings |= settings
        for controller in scene.cluster.controllers:
            controller._settings |= {PARTITIONS: "2", REPLICATION: "3"}

        async def acts() -> None:
            await scene.start()
            for broker_id, expected in ((1, [3, 3]), (2, [2, 2, 2]), (3, [3])):
                assert await _replicas_of_new_topic(scene, broker_id) == expected

        simulation.run(acts(), seconds=600)


async def _replicas_of_new_topic(scene: Scene, broker_id: int) -> list[int]:
    """Make a broker create a topic; return the replica count of each partition."""
    name = f"by-{broker_id}"
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (topic,) = (await scene.ask(broker_id, request, 12)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    while topic.error_code != ErrorCode.NONE:
        await asyncio.sleep(0.1)
        (topic,) = (await scene.ask(broker_id, request, 12)).topics
    return [len(each.replica_nodes) for each in topic.partitions]
