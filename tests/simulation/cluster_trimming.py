"""Client of a simulated cluster that deletes records from the start of its own topic, also inside batches.

A follower that was offline meanwhile must catch up with a leader whose log starts after the follower's end. The
remaining records must equal the acknowledged ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.simulation import ClusterBroker, Simulation
from tests.simulation.cluster_clients import Client
from tests.simulation.cluster_ledger import Ledger, PartitionKey
from tests.support.requests import batch, produce_request

TOPIC: Final = "trimmed"
PAUSE_SECONDS: Final = 0.4
BATCH_MAX: Final = 8
OPERATIONS: Final = (*("send",) * 5, "trim")


class Trimmer(Client):
    """Client that sends batches of several records, and deletes records below an offset."""

    def __init__(
        self, simulation: Simulation, brokers: Sequence[ClusterBroker], ledger: Ledger, topic_id: UUID
    ) -> None:
        super().__init__(simulation, brokers, ledger, "trimmer")
        self._key: PartitionKey = (topic_id, 0)
        self._end = 0
        """End offset of the acknowledged records."""

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await self.pause(PAUSE_SECONDS, self._ledger)
            await self.do(self._random_source.pick(OPERATIONS))
        self.close()

    async def send(self) -> None:
        """Send a batch with acks=all."""
        leader = await self.leader_of(self._key)
        if leader is None:
            return
        values = [
            f"{self.name}-{self._count}-{place}".encode() for place in range(1 + self._random_source.below(BATCH_MAX))
        ]
        for value in values:
            self._ledger.send(self._key, value)
        request = produce_request("", batch(*values), partition=0, topic_id=self._key[0])
        answer = (await self.ask(leader.broker_id, request, 13)).responses[0].partition_responses[0]
        if answer.error_code != ErrorCode.NONE:
            self._leaders.pop(self._key, None)
            return
        for offset, value in enumerate(values, answer.base_offset):
            self._ledger.acknowledge(self._key, offset, value)
        self._end = max(self._end, answer.base_offset + len(values))

    async def trim(self) -> None:
        """Delete the records below an offset near the end."""
        leader = await self.leader_of(self._key)
        if leader is None or self._end == 0:
            return
        offset = max(0, self._end - self._random_source.below(2 * BATCH_MAX))
        self._ledger.trimmed[self._key] = max(offset, self._ledger.trimmed.get(self._key, 0))
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name=TOPIC, partitions=[partition])]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
        answer = (await self.ask(leader.broker_id, request, 2)).topics[0].partitions[0]
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            self._leaders.pop(self._key, None)
