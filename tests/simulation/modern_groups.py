"""Groups whose coordinator assigns in a simulated cluster: a share group, a consumer group, and a streams group.

Their clients are part of each seed. After all faults, a last member of each group must own everything within a time
limit, and the histories of the groups must have no anomaly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final
from uuid import UUID

from kwire.simulation import SimulatedCluster, Simulation
from kwire.simulation.random_source import SeededRandomSource
from tests.history.operations import OK, Own
from tests.simulation import consumer_members, streams_members
from tests.simulation.cluster_admin import Administrator
from tests.simulation.cluster_end import HEAL_SECONDS, Healed
from tests.simulation.cluster_history import KEYS, PARTITIONS, TOPIC, History
from tests.simulation.cluster_ledger import Ledger
from tests.simulation.cluster_trimming import TOPIC as TRIMMED
from tests.simulation.consumer_members import ConsumerMember, consumer_config
from tests.simulation.modern_member import GroupEpochs, ModernMember
from tests.simulation.share_end import ShareGroup, share_config
from tests.simulation.share_history import STATE_TOPIC
from tests.simulation.share_history import TOPIC as SHARED
from tests.simulation.streams_members import StreamsMember, streams_config

OFFSETS_TOPIC: Final = "__consumer_offsets"
CONSUMERS: Final = 3
STREAMS: Final = 2
BEAT_SECONDS: Final = 0.3
TASKS: Final = {f"{streams_members.SUBTOPOLOGY}_{index}" for index in range(PARTITIONS)}


def modern_config(random_source: SeededRandomSource) -> dict[str, object]:
    """Return broker settings of all three kinds of groups."""
    return {
        **share_config(random_source.child("share")),
        **consumer_config(random_source.child("consumer")),
        **streams_config(random_source.child("streams")),
    }


class ModernGroups:
    """The three groups, with their clients and histories."""

    def __init__(
        self,
        simulation: Simulation,
        cluster: SimulatedCluster,
        ledger: Ledger,
        config: dict[str, object],
        *,
        is_lossless: bool,
    ) -> None:
        """Create the groups; `is_lossless` is False if a seed has more faults than are promised to lose nothing."""
        self._simulation = simulation
        self._cluster = cluster
        self._ids: dict[str, UUID] = {}
        self.shares = ShareGroup(simulation, cluster, ledger, config)
        self.consumed = History(simulation, consumer_members.RULES)
        self.streamed = History(simulation, streams_members.RULES)
        self._epochs = GroupEpochs(may_be_lost=not is_lossless), GroupEpochs(may_be_lost=not is_lossless)
        self._consumers = [self._consumer(f"k{number}") for number in range(CONSUMERS)]
        self._streams = [self._stream(f"x{number}") for number in range(STREAMS)]

    def _consumer(self, name: str) -> ConsumerMember:
        member = ConsumerMember(self._simulation, self._cluster.brokers, self.consumed, self._epochs[0], name)
        member.use_topics(self._ids)
        return member

    def _stream(self, name: str) -> StreamsMember:
        return StreamsMember(self._simulation, self._cluster.brokers, self.streamed, self._epochs[1], name)

    async def prepare(self, administrator: Administrator, topic_id: UUID, trimmed: UUID) -> None:
        """Prepare the groups, which use these topics."""
        self._ids.update({TOPIC: topic_id, TRIMMED: trimmed})
        await self.shares.prepare(administrator)

    def runs(self, end: float) -> list[Coroutine[Any, Any, None]]:
        """Return the work of all clients until the end time."""
        return [client.run(end) for client in (*self.shares.clients, *self._consumers, *self._streams)]

    @property
    def owned(self) -> tuple[int, int]:
        """Return the numbers of partitions and of tasks that members have owned and given back."""
        histories = (self.consumed, self.streamed)
        kept = [[each for each in history.operations if isinstance(each, Own)] for history in histories]
        return sum(own.outcome == OK for own in kept[0]), sum(own.outcome == OK for own in kept[1])

    async def conclude(self, healed: Healed) -> None:
        """Check the groups in a healed cluster. Raises AssertionError."""
        if healed.has_forgiven(OFFSETS_TOPIC):
            return
        if not healed.has_forgiven(SHARED, STATE_TOPIC):
            await self.shares.conclude()
        consumer = self._consumer("k-last")
        consumer.topics = (TOPIC,)
        await self._own_all(consumer, set(KEYS))
        for key in KEYS:
            while not await consumer.restore(key):
                await asyncio.sleep(BEAT_SECONDS)
        self.consumed.judge()
        stream = self._stream("x-last")
        await self._own_all(stream, TASKS)
        self.streamed.judge()
        consumer.close()
        stream.close()

    async def _own_all(self, member: ModernMember, keys: set[str]) -> None:
        deadline = self._simulation.now + HEAL_SECONDS
        while not keys <= member.owned.keys():
            what = f"the only member of {member.group} owns {sorted(member.owned)} of {sorted(keys)}"
            assert self._simulation.now < deadline, f"G6: after {HEAL_SECONDS} s {what}"
            await member.attempt()
            await asyncio.sleep(BEAT_SECONDS)
