"""Administrator of a simulated cluster: moves replicas, cancels moves, elects leaders, changes configurations."""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.simulation.cluster_clients import SAFE_SHAPES, Client
from tests.simulation.image_rules import MIN_INSYNC_REPLICAS
from tests.support.requests import create_request

OPERATIONS: Final = ("move", "move", "take_back", "elect", "elect", "change_min_insync")
PAUSE_SECONDS: Final = 1.5
PREFERRED: Final = 0
UNCLEAN: Final = 1
SET: Final = 0


class Administrator(Client):
    """Client that sends admin requests to any broker; their effects show in the metadata."""

    async def run(self, end: float) -> None:
        """Work until the end time."""
        while self._simulation.now < end:
            await asyncio.sleep(self._random_source.exponential(PAUSE_SECONDS))
            if self._ledger.topics:
                await self.do(self._random_source.pick(OPERATIONS))
        self.close()

    async def create_for_good(self, name: str, partitions: int) -> UUID:
        """Create a topic of three replicas with min.insync.replicas=2, which no client deletes; return its id."""
        while True:
            request = create_request(name, partitions, replicas=3, min_insync_replicas=2)
            answer = (await self.ask(self._anyone(), request, 7)).topics[0]
            if answer.error_code == ErrorCode.NONE:
                topic_id: UUID = answer.topic_id
                return topic_id
            await asyncio.sleep(PAUSE_SECONDS)

    async def _reassign(self, replicas: list[int] | None) -> None:
        name, (_, index) = self._pick()
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        topic = ReassignableTopic(name=name, partitions=[wanted])
        await self.ask(self._anyone(), AlterPartitionReassignmentsRequest(timeout_ms=3000, topics=[topic]), 1)

    async def move(self) -> None:
        """Reassign a partition to other replicas, or to another order of replicas."""
        count = len(self._brokers) if self._is_safe else self._random_source.pick((1, 2, 3, 3))
        await self._reassign(self._random_source.some(sorted(self._brokers), count))

    async def take_back(self) -> None:
        """Cancel a reassignment, if there is one."""
        await self._reassign(None)

    async def elect(self) -> None:
        """Elect the preferred leader of a partition."""
        name, (_, index) = self._pick()
        await self._elect(name, index, PREFERRED)

    async def elect_anybody(self, name: str, index: int) -> None:
        """Elect any live replica of a partition without a leader, even if records are lost."""
        await self._elect(name, index, UNCLEAN)

    async def _elect(self, name: str, index: int, kind: int) -> None:
        wanted = ElectLeadersTopicPartitions(topic=name, partitions=[index])
        request = ElectLeadersRequest(election_type=kind, topic_partitions=[wanted], timeout_ms=3000)
        await self.ask(self._anyone(), request, 2)

    async def change_min_insync(self) -> None:
        """Increase or decrease min.insync.replicas."""
        name, _ = self._pick()
        value = str(self._random_source.pick((2, 3) if self._is_safe else (1, 2, 3)))
        config = IncrementalAlterConfigsAlterableConfig(name=MIN_INSYNC_REPLICAS, config_operation=SET, value=value)
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=ConfigResourceType.TOPIC, resource_name=name, configs=[config]
        )
        await self.ask(self._anyone(), IncrementalAlterConfigsRequest(resources=[resource]), 1)

    @property
    def _is_safe(self) -> bool:
        return self._shapes is SAFE_SHAPES
