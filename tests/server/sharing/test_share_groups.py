"""Share groups over the wire: members, and the offsets of empty groups, with a share coordinator on the same broker."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any
from uuid import UUID
from weakref import ref

import pytest

from kwire.coordinator.group.modern import background_assignments
from kwire.coordinator.group.modern.background_assignments import BackgroundAssignments
from kwire.coordinator.group.share.share_group import ShareGroup
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.server.sharing.members import Member
from tests.support.compiled import replaces_methods
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

LEAST, MOST = -(1 << 63), (1 << 63) - 1
SINGLE = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SINGLE) as running:
        yield running


@pytest.fixture
def group(client: RawClient) -> str:
    """Return a group id whose coordinator is available."""
    name = unique("group")
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
    eventually(lambda: client.ask(request, 6).coordinators[0].error_code == 0, "there is a coordinator")
    return name


def alter(client: RawClient, group: str, topic: str, offset: int) -> int:
    """Set the start offset of partition 0, and return the error code of the request or the partition."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    named = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])
    answer = client.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=[named]), 0)
    codes = [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]
    return int(next(filter(None, codes), 0))


def described(client: RawClient, group: str) -> list[Any]:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    (answer,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups
    return [each for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize(("offset", "lag"), [(LEAST, LEAST + 3), (-9, 12), (1, 2), (MOST, 3 - MOST)])
def test_the_lag_of_any_start_offset_is_described(client: RawClient, group: str, offset: int, lag: int) -> None:
    topic, _ = create_topic(client)
    assert produce(client, topic, batch(b"a", b"b", b"c")).error_code == 0
    eventually(lambda: alter(client, group, topic, offset) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it is loaded")
    (found,) = described(client, group)
    assert (found.start_offset, found.lag) == (offset, lag)


def beat(client: RawClient, group: str, epoch: int, *topics: str) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    return client.ask(request, 1)


def join(client: RawClient, group: str, topic: str, count: int) -> None:
    """Let member m join, and wait until it has all partitions of its topic."""
    answers: list[Any] = []

    def is_assigned() -> bool:
        epoch = answers[-1].member_epoch if answers and answers[-1].error_code == 0 else 0
        answers.append(beat(client, group, epoch, topic))
        assigned = answers[-1].assignment
        return assigned is not None and sum(len(each.partitions) for each in assigned.topic_partitions) == count

    eventually(is_assigned, "the partitions are assigned")


def test_a_large_assignment_is_computed_in_the_background(
    client: RawClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_assignments, "SMALL", 20)
    begun: list[str] = []
    begin = BackgroundAssignments.begin

    def noted(assignments: BackgroundAssignments[Any], group_id: str, *rest: Any) -> None:
        begun.append(group_id)
        begin(assignments, group_id, *rest)

    monkeypatch.setattr(BackgroundAssignments, "begin", noted)
    topic, topic_id = create_topic(client, 30)
    join(client, group, topic, 30)
    assert set(begun) == {group}
    produce(client, topic, batch(b"a"))
    (data,) = Member(client, group, topic_id).fetch([0]).responses[0].partitions
    assert data.error_code == 0


def state_topics(broker: RunningBroker, group: str) -> set[UUID]:
    """Return the topics of which a group has states, or deletes or creates them."""
    share = broker.server.services.groups.share

    def find() -> set[UUID]:
        found = share._shard_of(group).machine.groups[group]
        assert isinstance(found, ShareGroup)
        states = found.states
        return {*states.initialized, *states.initializing, *states.deleting}

    return broker.call(find)


def delete_group(client: RawClient, group: str) -> int:
    return int(client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code)


def test_a_deleted_topic_is_forgotten_by_its_groups(broker: RunningBroker, client: RawClient, group: str) -> None:
    topic, topic_id = create_topic(client, 2)
    join(client, group, topic, 2)
    assert state_topics(broker, group) == {topic_id}
    assert beat(client, group, -1).error_code == 0
    assert client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)]), 6).responses[0].error_code == 0
    eventually(lambda: not state_topics(broker, group), "the topic is forgotten")
    assert delete_group(client, group) == 0


@replaces_methods
def test_a_group_with_states_of_an_unknown_topic_is_deleted(
    broker: RunningBroker, client: RawClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.server.services.groups, "topic_deleted", lambda _topic: None)
    topic, topic_id = create_topic(client, 2)
    join(client, group, topic, 2)
    assert beat(client, group, -1).error_code == 0
    assert client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)]), 6).responses[0].error_code == 0
    assert state_topics(broker, group) == {topic_id}
    assert delete_group(client, group) == 0


def test_a_member_that_joins_while_its_group_is_deleted_can_fetch(
    broker: RunningBroker, client: RawClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 70  # more than are deleted at a time
    topic, topic_id = create_topic(client, count)
    join(client, group, topic, count)
    assert beat(client, group, -1).error_code == 0
    persister = broker.server.services.share_persister
    delete_at_once = persister.delete_state

    async def delete_later(group_id: str, topic_id: UUID, partition: int) -> None:
        await asyncio.sleep(0.5)
        await delete_at_once(group_id, topic_id, partition)

    monkeypatch.setattr(persister, "delete_state", delete_later)
    with broker.client() as other:
        request = DeleteGroupsRequest(groups_names=[group])
        other.send(request, 2)
        eventually(lambda: not described(client, group), "the deletion has begun")
        join(client, group, topic, count)
        assert other.receive(request, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    answer = Member(client, group, topic_id).fetch(list(range(count)), wait_ms=1000)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0] * count


def test_a_deleted_group_leaves_no_object(broker: RunningBroker, client: RawClient, group: str) -> None:
    topic, _ = create_topic(client)
    join(client, group, topic, 1)
    assert beat(client, group, -1).error_code == 0
    share = broker.server.services.groups.share
    left = broker.call(lambda: ref(share._shard_of(group).machine.groups[group]))
    assert delete_group(client, group) == 0
    eventually(lambda: gc.collect() >= 0 and left() is None, "the group is freed")
