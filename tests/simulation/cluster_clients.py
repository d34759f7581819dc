"""Clients of a simulated cluster: they create and delete topics, produce, read, commit offsets, and request metadata.

All responses are stored in the ledger. A contradiction raises an AssertionError at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kwire.cluster.metadata.image import NO_LEADER
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.records import decode_all
from kwire.simulation import ClusterBroker, Simulation
from tests.simulation.cluster_ledger import CommitKey, Ledger, PartitionKey
from tests.simulation.connections import GROUP, Connections, Leader
from tests.support.requests import batch, create_request, fetch_request, produce_request

PAUSE_SECONDS: Final = 0.1
"""Average pause between two operations of a client."""
OPERATIONS: Final = (
    *("produce",) * 50, *("read",) * 15, *("commit",) * 5, *("look",) * 5, *("create",) * 3, "delete",
    *("take_producer_id",) * 2,
)  # fmt: skip
PARTITIONS_MAX: Final = 3
NAMES: Final = tuple(f"t-{number}" for number in range(10))
"""Topic names: few, so that names of deleted topics are used again."""
TOPICS_MAX: Final = 6


class Shape(NamedTuple):
    """Replication settings of a topic."""

    replicas: int
    in_sync: int
    """min.insync.replicas"""


SHAPES: Final = (Shape(1, 1), Shape(2, 1), Shape(2, 2), Shape(3, 1), Shape(3, 2), Shape(3, 2), Shape(3, 3))
SAFE_SHAPES: Final = (Shape(3, 2), Shape(3, 2), Shape(3, 3))
"""Shapes that survive the loss of a broker's disk."""


class Client(Connections):
    """Client with one connection to each broker; it runs one operation at a time."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: Sequence[ClusterBroker],
        ledger: Ledger,
        name: str,
        *,
        shapes: Sequence[Shape] = SHAPES,
    ) -> None:
        super().__init__(simulation, brokers, name)
        self._ledger = ledger
        self._shapes = shapes
        self._leaders: dict[PartitionKey, Leader] = {}
        self._coordinator: int | None = None
        self._count = 0

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await self.pause(PAUSE_SECONDS, self._ledger)
            await self.do("create" if not self._ledger.topics else self._random_source.pick(OPERATIONS))
        self.close()

    async def do(self, operation: str) -> None:
        """Run one operation and ignore its failure."""
        self._ledger.operations += 1
        self._count += 1
        try:
            await getattr(self, operation)()
        except OSError:
            self._leaders.clear()
            self._coordinator = None

    # --- metadata

    async def look(self) -> None:
        """Request metadata from a broker, with the leaders of partitions."""
        metadata = await self.ask(self._anyone(), MetadataRequest(topics=None), 12)
        self._check(metadata)
        self._leaders = {
            (topic.topic_id, part.partition_index): Leader(part.leader_id, part.leader_epoch)
            for topic in metadata.topics
            for part in topic.partitions
            if part.leader_id != NO_LEADER
        }

    def _check(self, metadata: MetadataResponse) -> None:
        """Check that each leader is among the live brokers, and that each epoch has one leader."""
        living = {broker.node_id for broker in metadata.brokers}
        assert living <= set(self._brokers), f"brokers {living}"
        for topic in metadata.topics:
            for part in topic.partitions:
                leader = part.leader_id
                code = ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE
                assert leader in (*living, NO_LEADER), f"{leader} leads {topic.name} and is not among {living}"
                assert part.error_code == code, f"{topic.name}: leader {leader}, code {part.error_code}"
                if leader != NO_LEADER:
                    self._ledger.lead(topic.topic_id, part.partition_index, part.leader_epoch, leader)

    async def create(self) -> None:
        """Create a topic, unless there are enough."""
        free = [name for name in NAMES if name not in self._ledger.topics]
        if len(self._ledger.topics) >= TOPICS_MAX:
            return
        name, count = self._random_source.pick(free), 1 + self._random_source.below(PARTITIONS_MAX)
        shape = self._random_source.pick(self._shapes)
        request = create_request(name, count, replicas=shape.replicas, min_insync_replicas=shape.in_sync)
        answer = (await self.ask(self._anyone(), request, 7)).topics[0]
        if answer.error_code == ErrorCode.NONE:
            assert answer.topic_id not in self._ledger.deleted, f"R18: {name} is {answer.topic_id} again"
            self._ledger.topics[name] = answer.topic_id, count

    async def delete(self) -> None:
        """Delete a topic, if there are some."""
        if len(self._ledger.topics) < TOPICS_MAX - 2:
            return
        name = self._random_source.pick(sorted(self._ledger.topics))
        topic_id, _ = self._ledger.topics.pop(name)
        # By id: a broker repeats a request without response at the next controller; a new topic may have the name by
        # then.
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=10_000)
        answer = (await self.ask(self._anyone(), request, 6)).responses[0]
        if answer.error_code == ErrorCode.NONE:
            assert answer.topic_id == topic_id, f"{answer.topic_id} was deleted instead of {topic_id}"
            self._ledger.deleted.add(topic_id)

    async def take_producer_id(self) -> None:
        """Request a producer id, as an idempotent producer does."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answer = await self.ask(self._anyone(), request, 4)
        if answer.error_code == ErrorCode.NONE:
            self._ledger.take_producer_id(answer.producer_id)

    # --- records

    def _pick(self) -> tuple[str, PartitionKey]:
        name = self._random_source.pick(sorted(self._ledger.topics))
        topic_id, count = self._ledger.topics[name]
        return name, (topic_id, self._random_source.below(count))

    async def leader_of(self, key: PartitionKey) -> Leader | None:
        """Return the leader of a partition, as far as this client knows it."""
        if key not in self._leaders:
            await self.look()
        return self._leaders.get(key)

    async def produce(self) -> None:
        """Produce one record with acks=all."""
        _, key = self._pick()
        leader = await self.leader_of(key)
        if leader is None:
            return
        value = f"{self.name}-{self._count}".encode()
        self._ledger.send(key, value)
        request = produce_request("", batch(value), partition=key[1], topic_id=key[0])
        answer = (await self.ask(leader.broker_id, request, 13)).responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            self._ledger.acknowledge(key, answer.base_offset, value)
        else:
            if answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
                self._ledger.rejected.add(value)
            self._leaders.pop(key, None)

    async def read(self) -> None:
        """Read from one of the acknowledged offsets."""
        _, key = self._pick()
        if known := self._ledger.records.get(key):
            await self.read_from(key, self._random_source.pick(list(known)))

    async def read_from(self, key: PartitionKey, offset: int) -> int | None:
        """Read from an offset and compare with the acknowledged records; return the end, or None without a response."""
        leader = await self.leader_of(key)
        if leader is None:
            return None
        request = fetch_request("", offset, partition=key[1], topic_id=key[0], leader_epoch=leader.epoch)
        response = await self.ask(leader.broker_id, request, 16)
        answer = response.responses[0].partitions[0] if response.responses else response
        if answer.error_code != ErrorCode.NONE:
            is_gone = key[0] not in {topic_id for topic_id, _ in self._ledger.topics.values()}
            is_beyond = answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            lost = is_beyond and self._ledger.must_have(key, offset, leader.epoch)
            assert is_gone or not lost, f"R1: lost: {key} has nothing at {offset}, where a record was acknowledged"
            self._leaders.pop(key, None)
            return None
        for record in decode_all(bytes(answer.records or b"")):
            if record.offset >= offset:
                self._ledger.compare(key, record.offset, record.value)
            offset = max(offset, record.offset + 1)
        return offset

    # --- offsets of the client's own group

    async def _coordinate(self) -> int:
        """Return the coordinator of the group. Raises OSError."""
        if self._coordinator is None:
            self._coordinator = await self.find_coordinator(self.name, GROUP)
        return self._coordinator

    async def commit(self) -> None:
        """Commit an offset higher than the previous one.

        The request contains the topic id: a broker without the newest metadata accepts a commit for a deleted topic's
        name, and forgets it later.
        """
        _, (topic_id, index) = self._pick()
        key: CommitKey = (self.name, topic_id, index)
        offset = self._ledger.tried_commits[key] = self._count
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        answer = await self.ask(await self._coordinate(), OffsetCommitRequest(group_id=self.name, topics=[topic]), 10)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self._ledger.commits[key] = offset
        else:
            self._coordinator = None

    async def committed(self, topic_id: UUID, index: int) -> int | None:
        """Return the committed offset; None without a response. Raises OSError."""
        topic = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[index])
        group = OffsetFetchRequestGroup(group_id=self.name, topics=[topic])
        answer = (await self.ask(await self._coordinate(), OffsetFetchRequest(groups=[group]), 10)).groups[0]
        if answer.error_code == ErrorCode.NONE and answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            offset: int = answer.topics[0].partitions[0].committed_offset
            return offset
        self._coordinator = None
        return None
