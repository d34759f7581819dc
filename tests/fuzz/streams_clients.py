"""Clients, topologies and expected statuses in the model of streams groups (streams_group_model.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kwire.cluster.metadata.image import TopicImage
from kwire.coordinator.group.streams.heartbeats import StreamsHeartbeat
from kwire.coordinator.group.streams.member import StreamsMember
from kwire.coordinator.group.streams.statuses import Status
from kwire.coordinator.group.streams.streams_group import StreamsGroup
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopology,
)
from tests.coordinator.streams_script import topology_of
from tests.fuzz.logged_world import GROUP

REBALANCE_MS: Final = 20_000
MISSING_PARTITION: Final = 99
PROCESSES: Final = ("p", "q", "r")
TEXTS: Final = (
    {"0": "t"},
    {"0": "t/!c"},
    {"0": "t/u"},
    {"0": "t/>r", "1": "<r*3/!c"},
    {"0": "t/>r", "1": "<r/!c"},
    {"0": "t/!c", "1": "u"},
    {"0": "t/u/+t+u"},
)
"""Topologies, in the form of tests/coordinator/streams_script.py."""
TOPOLOGIES: Final = tuple(topology_of(text, 0) for text in TEXTS)
TOPIC_STATUSES: Final = (
    Status.MISSING_SOURCE_TOPICS,
    Status.INCORRECTLY_PARTITIONED_TOPICS,
    Status.MISSING_INTERNAL_TOPICS,
)

Task = tuple[str, int]
Roles = tuple[set[Task], set[Task]]
"""Active tasks, and standby tasks."""


def nothing() -> Roles:
    return set(), set()


class Client:
    """Client of one member, as a thread of Kafka Streams behaves."""

    def __init__(self, name: str, process: str) -> None:
        self.name = name
        self.lives = 0
        self.begin_again(process)

    def begin_again(self, process: str) -> None:
        """Become a thread of another process, with another member id."""
        self.lives += 1
        self.process = process
        self.member_id = f"{self.name}{self.lives}"
        self.drop()

    def drop(self) -> None:
        """Close all tasks, as after an expired session, and join again with the next heartbeat."""
        self.epoch = 0
        self.is_member = False
        self.sends_all_fields = True
        self.held: Roles = nothing()
        """Tasks that it has open; revoked ones until it has closed them."""
        self.assigned: Roles = nothing()
        """Tasks in the last response with tasks."""
        self.asked_to_stop = False
        self.pending: asyncio.Future[StreamsHeartbeat] | None = None
        """Response that has not arrived yet."""

    def close_revoked(self) -> None:
        self.held = self.held[0] & self.assigned[0], self.held[1] & self.assigned[1]

    def has_revoked(self) -> bool:
        return self.held[0] <= self.assigned[0] and self.held[1] <= self.assigned[1]

    def request(self, topology: StreamsGroupHeartbeatTopology) -> StreamsGroupHeartbeatRequest:
        joins = not self.is_member
        has_all = joins or self.sends_all_fields
        return StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=0 if joins else self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if has_all else -1,
            topology=topology if joins else None,
            process_id=self.process if has_all else None,
            user_endpoint=StreamsGroupHeartbeatEndpoint(host=self.name, port=1) if has_all else None,
            active_tasks=by_subtopology(self.held[0]),
            standby_tasks=by_subtopology(self.held[1]),
            warmup_tasks=[],
        )


def by_subtopology(tasks: Iterable[Task]) -> list[StreamsGroupHeartbeatTaskIds]:
    partitions: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        partitions.setdefault(subtopology, []).append(partition)
    return [StreamsGroupHeartbeatTaskIds(subtopology_id=each, partitions=partitions[each]) for each in partitions]


def tasks_of(ids: Iterable[StreamsGroupHeartbeatTaskIds] | None) -> set[Task]:
    return {(each.subtopology_id, partition) for each in ids or () for partition in each.partitions}


def tasks_of_member(member: StreamsMember) -> Roles:
    """Return the tasks that a member has, or must still revoke."""
    parts = member.assigned, member.pending_revocation
    return (
        {(each, index) for part in parts for each, epochs in part.active.items() for index in epochs},
        {(each, index) for part in parts for each, indexes in part.standby.items() for index in indexes},
    )


def check_nothing_left(group: StreamsGroup) -> None:
    """Check that a group without members has no tables of them."""
    assert not group.targets, f"memory: {list(group.targets)} have targets"
    assert not group.endpoint_partitions, "memory: endpoints are left"
    left = {name: table for name, table in vars(group.processes).items() if table}
    assert not left, f"memory: processes have {left}"


def source_of(topology: StreamsGroupHeartbeatTopology, task: Task) -> str:
    """Return a topic that a task reads."""
    (subtopology,) = (each for each in topology.subtopologies if each.subtopology_id == task[0])
    return [*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)][0]


def code_of_commit(group: StreamsGroup | None, client: Client, task: Task) -> ErrorCode:
    """Return the error code for a client that commits for a task."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    member = group.members.get(client.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    tasks = (member.assigned.active, member.pending_revocation.active)
    since = [epochs[task[0]][task[1]] for epochs in tasks if task[1] in epochs.get(task[0], ())]
    is_old = client.epoch < member.member_epoch and bool(since) and since[0] <= client.epoch
    is_valid = client.epoch == member.member_epoch or is_old
    return ErrorCode.NONE if is_valid else ErrorCode.STALE_MEMBER_EPOCH


def invalid_request(
    group: StreamsGroup | None,
    client: Client,
    topology: StreamsGroupHeartbeatTopology,
    plan: Plan,
    choice: tuple[int, int],
) -> tuple[StreamsGroupHeartbeatRequest, ErrorCode]:
    """Return a heartbeat that a coordinator must reject, and the error code."""
    request, (kind, number) = client.request(topology), choice
    request.member_epoch = client.epoch
    member = None if group is None else group.members.get(client.member_id)
    missing = ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.UNKNOWN_MEMBER_ID
    expected = ErrorCode.FENCED_MEMBER_EPOCH if member is not None else missing
    newest, previous = client.epoch, client.epoch
    if member is not None:
        newest, previous = member.member_epoch, member.previous_member_epoch
    if kind == 0:
        request.member_epoch = newest + 1 + number % 3
    elif kind == 1 and min(previous, newest - 1) > 0:
        request.member_epoch = min(previous, newest - 1)
        request.active_tasks = [StreamsGroupHeartbeatTaskIds(subtopology_id="0", partitions=[MISSING_PARTITION])]
    elif kind == 2 and plan.status is None:
        request.member_epoch = newest
        request.active_tasks = [StreamsGroupHeartbeatTaskIds(subtopology_id="0", partitions=[MISSING_PARTITION])]
        expected = missing if member is None else ErrorCode.INVALID_REQUEST
    elif kind == 3:
        request.instance_id, expected = "i", ErrorCode.INVALID_REQUEST
    elif kind == 4:
        request.member_epoch, expected = -2, ErrorCode.INVALID_REQUEST
    elif kind == 5:
        request.topology, expected = topology, ErrorCode.INVALID_REQUEST
    else:
        request.member_id, expected = "stranger", missing
    request.topology = request.topology if kind == 5 else None
    return request, expected


class Sent(NamedTuple):
    """State when a heartbeat was sent."""

    status: Status | None
    must_stop: bool
    may_stop: bool
    has_revoked: bool


class Plan:
    """Status or tasks that follow from a topology and the existing topics, by brute force."""

    def __init__(self, topology: StreamsGroupHeartbeatTopology, topics: Mapping[str, TopicImage]) -> None:
        self.status: Status | None = None
        self.tasks: dict[Task, bool] = {}
        """For each task, whether it has a state."""
        self._counts = {name: len(topic.partitions) for name, topic in topics.items()}
        subtopologies = topology.subtopologies
        if any(name not in topics for each in subtopologies for name in each.source_topics):
            self.status = Status.MISSING_SOURCE_TOPICS
            return
        wanted = self._internal(subtopologies)
        if any(self._is_uneven(each) for each in subtopologies) or any(
            name in topics and self._counts[name] != count for name, count in wanted.items()
        ):
            self.status = Status.INCORRECTLY_PARTITIONED_TOPICS
        elif wanted.keys() - topics.keys():
            self.status = Status.MISSING_INTERNAL_TOPICS
        else:
            for each in subtopologies:
                is_stateful = bool(each.state_changelog_topics)
                self.tasks |= {(each.subtopology_id, index): is_stateful for index in range(self._count(each))}

    def _internal(self, subtopologies: Iterable[StreamsGroupHeartbeatSubtopology]) -> dict[str, int]:
        """Return the numbers of partitions that internal topics need."""
        wanted: dict[str, int] = {}
        for each in subtopologies:
            for topic in each.repartition_source_topics:
                (writer,) = (other for other in subtopologies if topic.name in other.repartition_sink_topics)
                wanted[topic.name] = topic.partitions or self._count(writer)
                self._counts.setdefault(topic.name, wanted[topic.name])
            wanted |= {topic.name: self._count(each) for topic in each.state_changelog_topics}
        return wanted

    def _count(self, subtopology: StreamsGroupHeartbeatSubtopology) -> int:
        names = [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]
        return max(self._counts[name] for name in names)

    def _is_uneven(self, subtopology: StreamsGroupHeartbeatSubtopology) -> bool:
        """Return True if topics that must have equal numbers of partitions do not."""
        groups = subtopology.copartition_groups
        return any(
            len({self._counts[subtopology.source_topics[index]] for index in group.source_topics}) > 1
            for group in groups
        )
