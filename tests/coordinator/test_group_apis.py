"""Handlers of the group APIs: versions, missing topics and authorization, in addition to the coordinator's logic."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kwire.chunks import whole
from kwire.cluster.partitions.partition import Partition
from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.server.apis.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from tests.coordinator.world import BROKER_ID, World
from tests.support.compiled import replaces_methods
from tests.virtual_loop import virtual_loop

TOPIC_ID = UUID(int=101)


class Gate(Authorizer):
    """Authorizer that denies the configured operations."""

    def __init__(self) -> None:
        self.rejected: set[tuple[ResourceType, str]] = set()

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return (resource, name) not in self.rejected


class Caller:
    """Caller of handlers, in place of a connection."""

    def __init__(self, world: World, run: Callable[[Any], Any]) -> None:
        self.world = world
        self.gate = Gate()
        self.run = run

    def call(self, api: Api, request: object, version: int) -> Any:
        return self.run(self.answer(api, request, version))

    async def answer(self, api: Api, request: object, version: int) -> Any:
        services = SimpleNamespace(
            groups=self.world.groups,
            image=self.world.image,
            authorizer=self.gate,
            audit=None,
            endpoint=lambda broker_id, listener: ("localhost", 9000) if broker_id == BROKER_ID else None,
        )
        context = RequestContext(
            services=cast("Any", services),
            connection=cast("Any", SimpleNamespace(principal="User:ANONYMOUS", peer_host="127.0.0.1")),
            listener_name="PLAINTEXT",
            api_key=api.key,
            version=version,
            correlation_id=1,
            client_id="client",
        )

        return await whole(api.handle(request, context))

    def commit(self, version: int, *topics: OffsetCommitRequestTopic) -> list[tuple[str, int, int]]:
        request = OffsetCommitRequest(group_id="g", topics=list(topics))
        response = self.call(offset_commit.API, request, version)
        return [
            (topic.name, partition.partition_index, partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        ]


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Caller]:
    with virtual_loop() as loop:
        world = World(tmp_path, loop)
        loop.run_until_complete(world.start())
        yield Caller(world, loop.run_until_complete)
        loop.run_until_complete(_stop(world))


async def _stop(world: World) -> None:
    world.stop()


def offsets(name: str, *indexes: int, topic_id: UUID | None = None) -> OffsetCommitRequestTopic:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in indexes]
    topic = OffsetCommitRequestTopic(name=name, partitions=partitions)
    if topic_id is not None:
        topic.topic_id = topic_id
    return topic


def test_a_group_has_its_partitions_leader_as_coordinator(caller: Caller) -> None:
    one = caller.call(find_coordinator.API, FindCoordinatorRequest(key="g"), 3)
    assert (one.error_code, one.node_id, one.host, one.port) == (0, BROKER_ID, "localhost", 9000)
    assert one.error_message == "NONE"
    many = caller.call(find_coordinator.API, FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert [(found.key, found.node_id) for found in many.coordinators] == [("g", BROKER_ID), ("h", BROKER_ID)]


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (7, ErrorCode.INVALID_REQUEST)],
)
def test_find_coordinator_rejects_other_key_types(caller: Caller, key_type: int, code: ErrorCode) -> None:
    response = caller.call(find_coordinator.API, FindCoordinatorRequest(key="k", key_type=key_type), 2)
    assert (response.error_code, response.node_id, response.host, response.port) == (code, -1, "", -1)


def test_a_null_protocol_name_is_an_empty_one_before_version_7(caller: Caller) -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1)
    assert caller.call(join_group.API, request, 6).protocol_name == ""
    assert caller.call(join_group.API, request, 7).protocol_name is None


@pytest.mark.parametrize(("version", "told"), [(3, ""), (6, ""), (7, None), (9, None)])
def test_an_empty_protocol_name_is_a_null_one_since_version_7(caller: Caller, version: int, told: str | None) -> None:
    protocols = [JoinGroupRequestProtocol(name="")]
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer", protocols=protocols
    )
    answer = caller.call(join_group.API, request, version)
    if version > 3:
        request.member_id = answer.member_id
        answer = caller.call(join_group.API, request, version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, told)


def test_a_member_joins_is_described_heartbeats_and_leaves(caller: Caller) -> None:
    protocols = [JoinGroupRequestProtocol(name="range")]
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10000, protocol_type="connect", protocols=protocols, rebalance_timeout_ms=1000
    )
    joined = caller.call(join_group.API, request, 0)
    assert joined.generation_id == 1
    assert joined.member_id.startswith("client-")
    described = caller.call(describe_groups.API, DescribeGroupsRequest(groups=["g"]), 3).groups[0]
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.authorized_operations == -(2**31)
    heartbeat_request = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert caller.call(heartbeat.API, heartbeat_request, 4).error_code == ErrorCode.NONE
    left = caller.call(leave_group.API, LeaveGroupRequest(group_id="g", member_id=joined.member_id), 0)
    assert left.error_code == ErrorCode.NONE


def test_sync_needs_the_protocol_since_version_5(caller: Caller) -> None:
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
    assert caller.call(sync_group.API, request, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert caller.call(sync_group.API, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_leave_group_of_one_member_has_a_top_level_error_before_version_3(caller: Caller) -> None:
    response = caller.call(leave_group.API, LeaveGroupRequest(group_id="g", member_id="m"), 2)
    assert (response.error_code, response.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    many = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    response = caller.call(leave_group.API, many, 3)
    assert response.error_code == ErrorCode.NONE
    assert [member.error_code for member in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_offset_commit_rejects_partitions_that_do_not_exist(caller: Caller) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caller.commit(9, offsets("t", 0, 7), offsets("nothing", 0)) == [
        ("t", 7, unknown),
        ("t", 0, 0),
        ("nothing", 0, unknown),
    ]
    assert caller.commit(9, offsets("nothing", 0)) == [("nothing", 0, unknown)]


def test_commits_by_topic_id(caller: Caller) -> None:
    response = caller.commit(10, offsets("", 1, topic_id=TOPIC_ID), offsets("", 0, topic_id=UUID(int=7)))
    assert response == [("", 0, ErrorCode.UNKNOWN_TOPIC_ID), ("t", 1, 0)]
    asked = OffsetFetchRequestGroup(
        group_id="g",
        topics=[
            OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(topic_id=UUID(int=7), partition_indexes=[0]),
        ],
    )
    group = caller.call(offset_fetch.API, OffsetFetchRequest(groups=[asked]), 10).groups[0]
    found = [
        (topic.topic_id, part.committed_offset, part.error_code) for topic in group.topics for part in topic.partitions
    ]
    assert found == [(TOPIC_ID, -1, 0), (TOPIC_ID, 5, 0), (UUID(int=7), -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert [topic.topic_id for topic in caller.call(offset_fetch.API, everything, 10).groups[0].topics] == [TOPIC_ID]


def test_an_offset_of_an_earlier_topic_of_the_name_is_not_shown(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    topics = [OffsetFetchRequestTopics(name="t", topic_id=UUID(int=8), partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer = caller.world.groups.fetch_offsets(group, require_stable=False)
    assert not asyncio.isfuture(answer)
    assert cast("Any", answer).topics[0].partitions[0].committed_offset == -1


def test_offset_fetch_has_one_group_at_top_level_before_version_8(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    response = caller.call(offset_fetch.API, OffsetFetchRequest(group_id="g", topics=topics), 7)
    assert [part.committed_offset for part in response.topics[0].partitions] == [5, -1]
    response = caller.call(offset_fetch.API, OffsetFetchRequest(group_id="g", topics=None), 2)
    assert [topic.name for topic in response.topics] == ["t"]
    several = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
    response = caller.call(offset_fetch.API, OffsetFetchRequest(groups=several), 8)
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [("g", 1), ("h", 0)]


def test_row_30_an_unauthorized_client_gets_no_group_details(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    caller.gate.rejected = {(ResourceType.GROUP, "g"), (ResourceType.CLUSTER, "kafka-cluster")}
    rejected = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert caller.commit(9, offsets("t", 0)) == [("t", 0, rejected)]
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    fetch = OffsetFetchRequest(group_id="g", topics=topics)
    assert caller.call(offset_fetch.API, fetch, 2).error_code == rejected
    assert caller.call(offset_fetch.API, fetch, 1).topics[0].partitions[0].error_code == rejected
    for api, request, version in (
        (find_coordinator.API, FindCoordinatorRequest(key="g"), 3),
        (join_group.API, JoinGroupRequest(group_id="g"), 9),
        (sync_group.API, SyncGroupRequest(group_id="g"), 5),
        (heartbeat.API, HeartbeatRequest(group_id="g"), 4),
        (leave_group.API, LeaveGroupRequest(group_id="g"), 5),
        (offset_delete.API, OffsetDeleteRequest(group_id="g"), 0),
    ):
        assert caller.call(api, request, version).error_code == rejected
    assert caller.call(describe_groups.API, DescribeGroupsRequest(groups=["g"]), 6).groups[0].error_code == rejected
    assert caller.call(delete_groups.API, DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == rejected
    assert caller.call(list_groups.API, ListGroupsRequest(), 5).groups == []


def test_unauthorized_topics_are_left_out_of_offset_fetch(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0), offsets("u", 0))
    caller.gate.rejected = {(ResourceType.TOPIC, "t")}
    rejected = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert caller.commit(9, offsets("t", 0), offsets("u", 0)) == [("t", 0, rejected), ("u", 0, 0)]
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert [topic.name for topic in caller.call(offset_fetch.API, everything, 9).groups[0].topics] == ["u"]
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("t", "u")]
    some = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    found = caller.call(offset_fetch.API, some, 9).groups[0].topics
    assert [(topic.name, topic.partitions[0].error_code) for topic in found] == [("u", 0), ("t", rejected)]


def test_offsets_are_deleted_for_partitions_that_exist(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)]
        )
        for name in ("t", "nothing")
    ]
    response = caller.call(offset_delete.API, OffsetDeleteRequest(group_id="g", topics=topics), 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = {topic.name: [part.error_code for part in topic.partitions] for topic in response.topics}
    assert found == {"t": [0, unknown], "nothing": [unknown, unknown]}
    unknown = caller.call(offset_delete.API, OffsetDeleteRequest(group_id="x", topics=topics), 0)
    assert (unknown.error_code, unknown.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_offsets_are_removed_with_a_deleted_topic_and_not_with_a_moved_replica(caller: Caller) -> None:
    world = caller.world

    def committed() -> list[str]:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        return [topic.name for topic in caller.call(offset_fetch.API, asked, 8).groups[0].topics]

    async def move() -> None:
        topic, other = world.image.topics["t"], (BROKER_ID + 1,)
        moved = [dataclasses.replace(each, replicas=other, isr=other, leader=other[0]) for each in topic.partitions]
        world.change_topic(dataclasses.replace(topic, partitions=tuple(moved)))

    async def delete() -> None:
        world.delete_topic("t")

    caller.commit(9, offsets("t", 0), offsets("u", 0))
    caller.run(move())
    assert world.partitions.get("t", 0) is None
    assert committed() == ["t", "u"]
    caller.run(delete())
    assert committed() == ["u"]


@replaces_methods
def test_answers_wait_for_a_high_watermark_that_lags(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    caller.commit(9, offsets("t", 0))
    advance = Partition._advance
    monkeypatch.setattr(Partition, "_advance", lambda self, end, size: None)
    topics = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
    deletion = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])]
    requests: list[tuple[Api, object, int]] = [
        (offset_commit.API, OffsetCommitRequest(group_id="g", topics=[offsets("t", 0, 7)]), 9),
        (offset_fetch.API, OffsetFetchRequest(groups=topics), 8),
        (offset_fetch.API, OffsetFetchRequest(group_id="g", topics=None), 7),
        (offset_delete.API, OffsetDeleteRequest(group_id="g", topics=deletion), 0),
        (delete_groups.API, DeleteGroupsRequest(groups_names=["x", "g"]), 2),
    ]

    async def main() -> list[Any]:
        waiting = [asyncio.ensure_future(caller.answer(api, request, version)) for api, request, version in requests]
        await asyncio.sleep(1)
        assert not any(future.done() for future in waiting)
        partition = caller.world.offsets_partition()
        advance(partition, partition.log.log_end_offset, 0)
        return await asyncio.gather(*waiting)

    committed, fetched, fetched_alone, deleted, gone = caller.run(main())
    assert [part.error_code for part in committed.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert [(group.group_id, len(group.topics)) for group in fetched.groups] == [("g", 1), ("h", 0)]
    assert len(fetched_alone.topics) == 1
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert [result.error_code for result in gone.results] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]


@replaces_methods
def test_pending_responses_get_not_coordinator_when_the_coordinator_stops(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "_advance", lambda self, end, size: None)

    async def main() -> tuple[Any, Any]:
        request = OffsetCommitRequest(group_id="g", topics=[offsets("t", 0)])
        commit = asyncio.ensure_future(caller.answer(offset_commit.API, request, 9))
        fetch_request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        fetch = asyncio.ensure_future(caller.answer(offset_fetch.API, fetch_request, 8))
        await asyncio.sleep(1)
        caller.world.groups.stop()
        return await commit, await fetch

    committed, fetched = caller.run(main())
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert fetched.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    afterwards = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert caller.call(heartbeat.API, HeartbeatRequest(group_id="g"), 4).error_code == afterwards


def join_request(*, instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id=instance_id,
        protocol_type="x",
        protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")],
    )


def make_stable(caller: Caller, instance_id: str) -> None:
    """Create a group with one static member."""
    joined = caller.call(join_group.API, join_request(instance_id=instance_id), 5)
    request = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=instance_id
    )
    assert caller.call(sync_group.API, request, 4).error_code == ErrorCode.NONE


@replaces_methods
@pytest.mark.parametrize(
    "then",
    [
        (join_group.API, join_request(instance_id="i"), 5),
        (join_group.API, join_request(instance_id="j"), 5),
        (leave_group.API, LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id="i")]), 5),
    ],
    ids=["replaced again", "another joins", "leaves"],
)
def test_an_uncommitted_static_member_id_does_not_block_another_coordinator(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, then: tuple[Api, object, int]
) -> None:
    """Later changes of the group are not undone, and every request gets a response."""
    make_stable(caller, "i")
    monkeypatch.setattr(Partition, "_advance", lambda self, end, size: None)

    async def main() -> tuple[Any, Any]:
        first = asyncio.ensure_future(caller.answer(join_group.API, join_request(instance_id="i"), 5))
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(caller.answer(*then))
        await asyncio.sleep(0.1)
        caller.world.groups.stop()
        return await asyncio.wait_for(asyncio.gather(first, second), 1)

    assert len(caller.run(main())) == 2


@replaces_methods
def test_members_of_a_group_that_is_not_committed_are_answered_when_the_coordinator_stops(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "_advance", lambda self, end, size: None)

    async def main() -> list[Any]:
        joins = [asyncio.ensure_future(caller.answer(join_group.API, join_request(), 3)) for _ in range(2)]
        await asyncio.sleep(0.1)
        caller.world.groups.stop()
        return await asyncio.wait_for(asyncio.gather(*joins), 1)

    assert [answer.error_code for answer in caller.run(main())] == [ErrorCode.NOT_COORDINATOR] * 2


def test_groups_are_deleted_once_each(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    response = caller.call(delete_groups.API, DeleteGroupsRequest(groups_names=["g", "x", "g"]), 2)
    results = [(result.group_id, result.error_code) for result in response.results]
    assert results == [("g", 0), ("x", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert caller.call(list_groups.API, ListGroupsRequest(), 0).groups == []


def test_described_groups_have_authorized_operations(caller: Caller) -> None:
    caller.commit(9, offsets("t", 0))
    request = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=True)
    known, unknown = caller.call(describe_groups.API, request, 6).groups
    assert known.authorized_operations == 3400
    assert (unknown.group_state, unknown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    _, unknown = caller.call(describe_groups.API, request, 5).groups
    assert (unknown.group_state, unknown.error_code) == ("Dead", ErrorCode.NONE)
