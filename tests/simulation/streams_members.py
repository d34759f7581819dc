"""Members of a streams group (KIP-1071) in a simulated cluster, with a topology of one stateful subtopology.

An active task has one owner (G8), besides the checks of all members (modern_member.py).
"""

from __future__ import annotations

from typing import Final

from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)
from kwire.simulation.random_source import SeededRandomSource
from tests.simulation.cluster_history import TOPIC
from tests.simulation.modern_member import JOINS, LEAVES, REBALANCE_TIMEOUT_MS, ModernMember

STREAMS_GROUP: Final = "streams"
CHANGELOG: Final = "streams-changelog"
RULES: Final = {"double owner": "G8"}
SUBTOPOLOGY: Final = "0"


def streams_config(random_source: SeededRandomSource) -> dict[str, object]:
    """Return broker settings of streams groups: short sessions and intervals."""
    return {
        "group.streams.session.timeout.ms": 6000,
        "group.streams.min.session.timeout.ms": 6000,
        "group.streams.heartbeat.interval.ms": 1000,
        "group.streams.min.heartbeat.interval.ms": 1000,
        "group.streams.initial.rebalance.delay.ms": random_source.pick((0, 1000)),
        "group.streams.assignment.interval.ms": random_source.pick((0, 1000)),
        "group.streams.num.standby.replicas": random_source.pick((0, 1)),
    }


def _topology() -> StreamsGroupHeartbeatTopology:
    changelog = StreamsGroupHeartbeatTopicInfo(name=CHANGELOG, partitions=0, replication_factor=3)
    subtopology = StreamsGroupHeartbeatSubtopology(
        subtopology_id=SUBTOPOLOGY, source_topics=[TOPIC], state_changelog_topics=[changelog]
    )
    return StreamsGroupHeartbeatTopology(epoch=0, subtopologies=[subtopology])


class StreamsMember(ModernMember):
    """Member of the streams group; each of its lives is another process."""

    group = STREAMS_GROUP

    def _begin_life(self) -> None:
        super()._begin_life()
        self._copies: tuple[list[StreamsGroupHeartbeatTaskIds], list[StreamsGroupHeartbeatTaskIds]] = ([], [])
        """Standby and warm-up tasks."""

    async def send(self, epoch: int) -> StreamsGroupHeartbeatResponse:
        joins, leaves = epoch == JOINS, epoch == LEAVES
        if joins:
            self._copies = ([], [])
        partitions = sorted(int(key.rpartition("_")[2]) for key in self.owned)
        active = [StreamsGroupHeartbeatTaskIds(subtopology_id=SUBTOPOLOGY, partitions=partitions)] if partitions else []
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            topology=_topology() if joins else None,
            active_tasks=None if leaves else active,
            standby_tasks=None if leaves else self._copies[0],
            warmup_tasks=None if leaves else self._copies[1],
            process_id=self.member_id if joins else None,
        )
        answer: StreamsGroupHeartbeatResponse = await self.ask(await self.coordinate(), request, 0)
        return answer

    def assignment_in(self, answer: StreamsGroupHeartbeatResponse) -> set[str] | None:
        if answer.active_tasks is None:
            return None
        self._copies = answer.standby_tasks or [], answer.warmup_tasks or []
        return {f"{each.subtopology_id}_{index}" for each in answer.active_tasks for index in each.partitions}
