"""Members of consumer, share and streams groups that send one heartbeat at a time and keep what a client keeps."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compat_tests.exchanged_groups.asking import Asker, accepted
from compat_tests.group_script.known import Assigned, member_id, sorted_assigned
from compat_tests.harness.waiting import eventually
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatKeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)

REBALANCE_TIMEOUT_MS = 600_000
ROUNDS = 12
LEAVES, LEAVES_FOR_A_WHILE = -1, -2


@dataclass(slots=True, kw_only=True)
class Member:
    """Member with its epoch, the partitions or tasks that it owns, and those that it was assigned last."""

    asker: Asker
    group: str
    number: int
    instance: str | None = None
    epoch: int = 0
    owned: Any = field(default_factory=dict)
    assigned: Any = field(default_factory=dict)

    @property
    def name(self) -> str:
        return member_id(self.number)

    def ask(self, request: Any, version: int) -> Any:
        """Send a heartbeat and keep the member epoch of its response; partitions are assigned by the caller."""
        answer = self.asker.ask(request, version)
        if not answer.error_code:
            self.epoch = max(answer.member_epoch, 0)
        return answer

    def ask_for_partitions(self, request: Any) -> Any:
        """Send a heartbeat of a consumer or share group, and keep the partitions that its response assigns."""
        answer = self.ask(request, 1)
        if not answer.error_code and answer.assignment is not None:
            topic_name = self.asker.known.topic_name
            self.assigned = sorted_assigned(
                {topic_name(each.topic_id): each.partitions for each in answer.assignment.topic_partitions}
            )
        return answer

    def beat(self, *, owns: bool = False) -> Any:
        """Send a heartbeat: the first one joins, others name what the member owns only if `owns`."""
        raise NotImplementedError

    def confirm(self) -> None:
        """Take and give up partitions or tasks as the last response says."""
        self.owned = self.assigned

    def forget(self) -> None:
        self.epoch, self.owned, self.assigned = 0, {}, {}


@dataclass(slots=True, kw_only=True)
class ConsumerMember(Member):
    topics: Sequence[str] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS

    def beat(self, *, owns: bool = False, epoch: int | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.name, member_epoch=self.epoch if epoch is None else epoch
        )
        request.instance_id = self.instance
        if request.member_epoch == 0:
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.subscribed_topic_names = list(self.topics)
            request.subscribed_topic_regex = self.regex
            request.topic_partitions = []
        elif owns:
            request.topic_partitions = [
                ConsumerGroupHeartbeatTopicPartitions(topic_id=self.asker.known.topic_id(topic), partitions=partitions)
                for topic, partitions in self.owned.items()
            ]
        return self.ask_for_partitions(request)


@dataclass(slots=True, kw_only=True)
class ShareMember(Member):
    topics: Sequence[str] = ()

    def settle_with(self, topic: str) -> None:
        """Send heartbeats until the state of the topic's partitions is initialised, so that they are assigned."""

        def has_topic() -> bool:
            accepted(self.beat())
            self.confirm()
            return topic in self.owned

        eventually(has_topic, f"{topic} to be assigned")
        settle([self])

    def beat(self, *, owns: bool = False) -> Any:
        request = ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=self.epoch)
        if self.epoch == 0:
            request.subscribed_topic_names = list(self.topics)
        return self.ask_for_partitions(request)


@dataclass(slots=True, kw_only=True)
class StreamsMember(Member):
    topic: str

    def beat(self, *, owns: bool = False) -> Any:
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.name, member_epoch=self.epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = f"process-{self.number}"
            request.topology = counting(self.group, self.topic)
            request.client_tags = [StreamsGroupHeartbeatKeyValue(key="zone", value=str(self.number % 2))]
        if self.epoch == 0 or owns:
            active, standby = self.owned or ({}, {})
            request.active_tasks, request.standby_tasks = _task_ids(active), _task_ids(standby)
            request.warmup_tasks = []
        answer = self.ask(request, 0)
        if not answer.error_code and answer.active_tasks is not None:
            self.assigned = _assigned(answer.active_tasks), _assigned(answer.standby_tasks or [])
        return answer


def _task_ids(tasks: Assigned) -> list[StreamsGroupHeartbeatTaskIds]:
    return [
        StreamsGroupHeartbeatTaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in tasks.items()
    ]


def _assigned(tasks: list[StreamsGroupHeartbeatTaskIds]) -> Assigned:
    return sorted_assigned({each.subtopology_id: each.partitions for each in tasks})


def counting(group: str, topic: str) -> StreamsGroupHeartbeatTopology:
    """Return a topology that counts the words of a topic in a store, which has a changelog."""
    changelog = StreamsGroupHeartbeatTopicInfo(
        name=f"{group}-counts-changelog",
        partitions=0,
        replication_factor=0,
        topic_configs=[StreamsGroupHeartbeatKeyValue(key="cleanup.policy", value="compact")],
    )
    subtopology = StreamsGroupHeartbeatSubtopology(
        subtopology_id="0",
        source_topics=[topic],
        source_topic_regex=[],
        state_changelog_topics=[changelog],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return StreamsGroupHeartbeatTopology(epoch=1, subtopologies=[subtopology])


def settle(members: Sequence[Member]) -> None:
    """Let the members send heartbeats and follow their assignments until nothing changes."""
    for _ in range(ROUNDS):
        before = _state(members)
        for member in members:
            accepted(member.beat(owns=True))
            member.confirm()
        if _state(members) == before:
            return
    raise AssertionError(f"the group does not become stable: {_state(members)}")


def _state(members: Sequence[Member]) -> str:
    return json.dumps([(each.epoch, each.owned) for each in members])
