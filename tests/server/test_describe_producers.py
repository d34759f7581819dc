"""DescribeProducers on the replicas of a partition."""

from __future__ import annotations

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from tests.log.support import NOW_MS, batch
from tests.server.replicated_topic import Scene, play
from tests.support.requests import create_request, produce_request


def test_a_follower_describes_the_producers_in_its_log() -> None:
    async def acts(scene: Scene) -> None:
        answer = await scene.ask(1, create_request("u", replicas=2), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE

        async def ask(broker: int, index: int = 0) -> tuple[int, list[tuple[int, int, int, int]]]:
            topics = [DescribeProducersTopicRequest(name="u", partition_indexes=[index])]
            (found,) = (await scene.ask(broker, DescribeProducersRequest(topics=topics), 0)).topics[0].partitions
            producers = [
                (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
                for each in found.active_producers
            ]
            return found.error_code, producers

        servers = [node.server for node in scene.cluster.brokers]
        await scene.until(lambda: all("u" in server.metadata_log.image.topics for server in servers))
        image = scene.cluster.brokers[0].server.metadata_log.image.topics["u"].partitions[0]
        sent = bytes(batch(b"v", b"w", producer_id=7, producer_epoch=1, sequence=0))
        answer = await scene.ask(image.leader, produce_request("u", sent, acks=-1), 11)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        for broker in (1, 2, 3):
            expected = (0, [(7, 1, 1, NOW_MS)]) if broker in image.replicas else (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
            assert await ask(broker) == expected
            assert (await ask(broker, 1))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(acts)
