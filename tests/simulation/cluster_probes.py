"""Client of a simulated cluster that queries its partitions and moves replicas between log directories.

- End: LATEST of a leader is above every record that was acknowledged before the request (R15, KIP-207).
- Producers: each broker with a replica, leader or follower, describes its producers (KIP-664).
- Move: a replica moves to the other log directory of its broker, if there are two; the rules of replicas check it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.simulation.brokers import DIRECTORY
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_ledger import PartitionKey
from tests.simulation.connections import Leader

SECOND_DIRECTORY: Final = f"{DIRECTORY}-2"
CHECK_SECONDS: Final = 0.02
PAUSE_SECONDS: Final = 0.5
OPERATIONS: Final = (*("end",) * 6, *("producers",) * 2, "move")


class Prober(Client):
    """Client that sends one query after another."""

    async def run(self, end: float) -> None:
        """Work until the end time; query a new leader at once."""
        next_operation = self._simulation.now
        while self._simulation.now < end:
            await asyncio.sleep(CHECK_SECONDS)
            while self._ledger.new_leaders:
                broker_id, name, key, epoch = self._ledger.new_leaders.pop()
                with suppress(OSError):
                    await self._ask_end(name, key, Leader(broker_id, epoch))
            if self._ledger.topics and self._simulation.now >= next_operation:
                next_operation = self._simulation.now + self._random_source.exponential(PAUSE_SECONDS)
                await self.do(self._random_source.pick(OPERATIONS))
        self.close()

    async def end(self) -> None:
        """Request LATEST of a partition from the leader that this client knows."""
        name, key = self._pick()
        leader = await self.leader_of(key)
        if leader is not None:
            await self._ask_end(name, key, leader)

    async def _ask_end(self, name: str, key: PartitionKey, leader: Leader) -> None:
        last = self._last_acknowledged(key, leader.epoch)
        asked = ListOffsetsPartition(partition_index=key[1], timestamp=LATEST, current_leader_epoch=leader.epoch)
        topics = [ListOffsetsTopic(name=name, partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        answer = (await self.ask(leader.broker_id, request, 7)).topics[0].partitions[0]
        if answer.error_code:
            self._leaders.pop(key, None)
        elif key not in self._ledger.forgiven and self._is_known(leader.broker_id, name, key):
            assert answer.offset > last, f"R15: {key}: {answer.offset} is the end, and {last} was acknowledged"

    def _last_acknowledged(self, key: PartitionKey, epoch: int) -> int:
        """Return the last record that a leader of this epoch must have; -1 if there is none."""
        acknowledged = self._ledger.acknowledged_in.get(key, {})
        return max((offset for offset, since in acknowledged.items() if since <= epoch), default=-1)

    def _is_known(self, broker_id: int, name: str, key: PartitionKey) -> bool:
        """Return True if the broker has the same topic under this name and is not deleting it."""
        broker = self._brokers[broker_id]
        if not broker.is_serving or self._ledger.topics.get(name, (None,))[0] != key[0]:
            return False
        topic = broker.server.services.image.topics.get(name)
        return topic is not None and topic.topic_id == key[0]

    async def producers(self) -> None:
        """Request the producers of a partition from any broker."""
        name, key = self._pick()
        broker_id = self._anyone()
        had_it = self._has_replica(broker_id, name, key)
        topic = DescribeProducersTopicRequest(name=name, partition_indexes=[key[1]])
        answer = (await self.ask(broker_id, DescribeProducersRequest(topics=[topic]), 0)).topics[0].partitions[0]
        if had_it and self._has_replica(broker_id, name, key):
            code = ErrorCode(answer.error_code)
            assert code == ErrorCode.NONE, f"R19: {name}-{key[1]}: broker {broker_id} has a replica and answers {code}"

    def _has_replica(self, broker_id: int, name: str, key: PartitionKey) -> bool:
        if not self._is_known(broker_id, name, key):
            return False
        partition = self._brokers[broker_id].server.services.partitions.get(name, key[1])
        return partition is not None and partition.log.failure is None

    async def move(self) -> None:
        """Request that a broker moves its replica of a partition to another log directory."""
        name, key = self._pick()
        path = self._random_source.pick((DIRECTORY, SECOND_DIRECTORY))
        topic = AlterReplicaLogDirTopic(name=name, partitions=[key[1]])
        wanted = AlterReplicaLogDir(path=path, topics=[topic])
        await self.ask(self._anyone(), AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
