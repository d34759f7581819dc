"""AlterPartition requests of a leader when very many in-sync sets change at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kwire.cluster.partitions.in_sync import Proposal
from kwire.protocol.codec import decode, encode
from kwire.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kwire.server.replication.in_sync_changes import InSyncChanges

TOPIC_ID = UUID(int=9)
PARTITIONS = 30_000
"""Number of partitions with three replicas: more elements than a request may have."""


class Controller:
    """Controller that accepts each request that can be encoded."""

    def __init__(self) -> None:
        self.decided: list[int] = []

    async def send(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        body = bytearray()
        encode(request, 3, body)
        (topic,) = decode(AlterPartitionRequest, 3, bytes(body)).topics
        self.decided += [partition.partition_index for partition in topic.partitions]
        answers = [
            AlterPartitionResponsePartitionData(
                partition_index=partition.partition_index, partition_epoch=partition.partition_epoch + 1
            )
            for partition in topic.partitions
        ]
        return AlterPartitionResponse(topics=[AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=answers)])


def changing(index: int) -> Any:
    proposal = Proposal(isr=(1, 2, 3), broker_epochs=(5, 6, 7), leader_epoch=1, partition_epoch=1)
    return SimpleNamespace(topic="t", topic_id=TOPIC_ID, index=index, followers=SimpleNamespace(proposal=proposal))


def test_many_isr_changes_are_split_over_several_requests() -> None:
    controller: Any = Controller()

    async def acts() -> None:
        changes = InSyncChanges(broker_id=1, broker_epoch=lambda: 5, active_controller=controller)
        for index in range(PARTITIONS):
            changes.add(changing(index))
        task = asyncio.ensure_future(changes.run())
        async with asyncio.timeout(60):
            while len(controller.decided) < PARTITIONS:
                await asyncio.sleep(0)
        task.cancel()

    asyncio.run(acts())
    assert sorted(controller.decided) == list(range(PARTITIONS))
