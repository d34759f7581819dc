"""Metadata response for replicas whose broker or log directory is offline, by request version."""

from __future__ import annotations

from typing import Any

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.replicated_topic import Scene, play


async def partition_in(scene: Scene, version: int, broker: int | None = None) -> Any:
    topics = [MetadataRequestTopic(name="t")]
    (topic,) = (await scene.ask(broker or scene.leader_id, MetadataRequest(topics=topics), version)).topics
    return topic.partitions[0]


def test_version_0_names_only_replicas_that_can_be_reached() -> None:
    async def acts(scene: Scene) -> None:
        whole = await partition_in(scene, 0)
        assert (whole.error_code, sorted(whole.replica_nodes)) == (ErrorCode.NONE, [1, 2, 3])
        gone, here = scene.followers[0], scene.leader_id
        await scene.cluster.brokers[gone - 1].stop()
        image = scene.cluster.brokers[here - 1].server.services
        await scene.until(lambda: image.image.brokers[gone].fenced)
        oldest, old, new = [await partition_in(scene, version, here) for version in (0, 1, 13)]
        assert (oldest.error_code, gone in oldest.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, False)
        assert oldest.leader_id == here
        for each in (old, new):
            assert (each.error_code, sorted(each.replica_nodes)) == (ErrorCode.NONE, [1, 2, 3])
        assert new.offline_replicas == [gone]

    play(acts)
