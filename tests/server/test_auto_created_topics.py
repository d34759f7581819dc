"""Topics that a broker creates because a client asked for them: the broker's own settings decide what they are like."""

from __future__ import annotations

import asyncio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.simulation import Simulation
from tests.server.replicated_topic import Scene


def test_an_auto_created_topic_goes_by_the_broker_that_was_asked() -> None:
    """Not by num.partitions and default.replication.factor of the controller, which are 1 here."""
    with Simulation(3) as simulation:
        scene = Scene(simulation)
        scene.cluster.brokers[1]._settings |= {"num.partitions": "3", "default.replication.factor": "2"}

        async def acts() -> None:
            await scene.start()
            for broker, expected in ((1, [1]), (2, [2, 2, 2])):
                name = f"by-{broker}"
                request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
                (topic,) = (await scene.ask(broker, request, 12)).topics
                assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                while topic.error_code != ErrorCode.NONE:
                    await asyncio.sleep(0.1)
                    (topic,) = (await scene.ask(broker, request, 12)).topics
                assert [len(each.replica_nodes) for each in topic.partitions] == expected

        simulation.run(acts(), seconds=600)
