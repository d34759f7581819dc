"""Members of a consumer group (KIP-848) in a simulated cluster, which commit offsets with their member epochs.

Beyond the checks of all members (modern_member.py):

- a committed offset is never lost (G4): the history's checker compares reads with commits;
- commits are rejected after the member has left, and with an older epoch for a partition that it has given up (G3).
"""

from __future__ import annotations

from typing import Any, Final

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
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
from kwire.simulation.random_source import SeededRandomSource
from tests.history.operations import FAIL, Restore, Store
from tests.simulation.cluster_history import TOPIC
from tests.simulation.cluster_trimming import TOPIC as TRIMMED
from tests.simulation.modern_member import JOINS, LEAVES, REBALANCE_TIMEOUT_MS, ModernMember

CONSUMER_GROUP: Final = "consumers"
RULES: Final = {"double owner": "G1", "rewound commit": "G4"}
SUBSCRIPTIONS: Final = ((TOPIC,), (TOPIC,), (TOPIC, TRIMMED), (TRIMMED,))
ASSIGNORS: Final = (None, "uniform", "range")
REJECTED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


def consumer_config(random_source: SeededRandomSource) -> dict[str, object]:
    """Return broker settings of consumer groups: short sessions and intervals."""
    return {
        "group.consumer.session.timeout.ms": 6000,
        "group.consumer.min.session.timeout.ms": 6000,
        "group.consumer.heartbeat.interval.ms": 1000,
        "group.consumer.min.heartbeat.interval.ms": 1000,
        "group.consumer.assignment.interval.ms": random_source.pick((0, 1000)),
    }


class ConsumerMember(ModernMember):
    """Member of the consumer group."""

    group = CONSUMER_GROUP
    topics: tuple[str, ...] = ()
    """Subscribed topics."""

    def _begin_life(self) -> None:
        super()._begin_life()
        self.topics = self._random_source.pick(SUBSCRIPTIONS)
        self._former: dict[str, int] = {}
        """Epochs in which partitions were given up, which the coordinator has confirmed."""

    # --- heartbeats

    async def send(self, epoch: int) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == JOINS
        named: dict[Any, list[int]] = {}
        for key in sorted(self.owned):
            name, _, index = key.rpartition("-")
            named.setdefault(self._ids[name], []).append(int(index))
        owned = [ConsumerGroupHeartbeatTopicPartitions(topic_id=i, partitions=p) for i, p in named.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=self._subscription(joins=joins),
            server_assignor=self._random_source.pick(ASSIGNORS) if joins else None,
            topic_partitions=None if epoch == LEAVES else owned,
        )
        answer: ConsumerGroupHeartbeatResponse = await self.ask(await self.coordinate(), request, 1)
        return answer

    def _subscription(self, *, joins: bool) -> list[str] | None:
        if joins:
            return list(self.topics)
        if self._random_source.happens(0.05):
            self.topics = self._random_source.pick(SUBSCRIPTIONS)
            return list(self.topics)
        return None

    def assignment_in(self, answer: ConsumerGroupHeartbeatResponse) -> set[str] | None:
        if answer.assignment is None:
            return None
        names = {topic_id: name for name, topic_id in self._ids.items()}
        topics = answer.assignment.topic_partitions
        return {f"{names[topic.topic_id]}-{index}" for topic in topics for index in topic.partitions}

    def use_topics(self, ids: dict[str, Any]) -> None:
        """Set the ids of the topics by name."""
        self._ids = ids

    def _follow(self, epoch: int, assignment: set[str] | None) -> None:
        self._former.update({key: own.generation for own in self._given_up for key in own.keys})
        super()._follow(epoch, assignment)
        for key in self.owned:
            self._former.pop(key, None)

    def _lose_all(self) -> None:
        super()._lose_all()
        self._former.clear()

    # --- offsets

    async def work(self) -> None:
        """Read or commit an offset of one partition, or try a commit that must be rejected. Raises OSError."""
        stale = sorted(key for key, epoch in self._former.items() if epoch < self.epoch)
        if stale and self._random_source.happens(0.3):
            key = self._random_source.pick(stale)
            code = await self._commit(key, self._former[key])
            assert code != ErrorCode.NONE, (
                f"G3: {self.member_id} commits {key} with epoch {self._former[key]}, which it has given up"
            )
        elif self.owned:
            key = self._random_source.pick(sorted(self.owned))
            if self._random_source.happens(0.4):
                await self.restore(key)
            else:
                await self._commit(key, self.epoch)

    async def after_leaving(self, epoch: int) -> None:
        code = await self._commit(f"{TOPIC}-0", epoch)
        assert code != ErrorCode.NONE, f"G3: {self.member_id} commits with epoch {epoch}, and has left"

    async def _commit(self, key: str, epoch: int) -> int:
        """Commit an offset higher than all before; return the error code. Raises OSError."""
        name, _, index = key.rpartition("-")
        store = Store(process=self.member_id, group=self.group, offsets={key: len(self._history.operations)})
        self._history.begin(store)
        partition = OffsetCommitRequestPartition(
            partition_index=int(index), committed_offset=store.offsets[key], committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=[partition])],
        )
        answer = await self.ask(await self.coordinate(), request, 9)
        code: int = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            self._history.end(store)
        elif code in REJECTED:
            self._history.end(store, FAIL)
        else:
            self._coordinator = None
        return code

    async def restore(self, key: str) -> bool:
        """Read the committed offset of a partition; return False if it is rejected. Raises OSError."""
        name, _, index = key.rpartition("-")
        restore = self._history.begin(Restore(process=self.member_id, group=self.group))
        topic = OffsetFetchRequestTopics(name=name, partition_indexes=[int(index)])
        asked = OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topics=[topic]
        )
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        (answer,) = (await self.ask(await self.coordinate(), request, 9)).groups
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            self._coordinator = None
            return False
        restore.offsets = {key: answer.topics[0].partitions[0].committed_offset}
        self._history.end(restore)
        return True
