"""Share coordinator over the wire: state of share partitions, epochs, errors and authorization (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.cluster.topic_names import SHARE_STATE_TOPIC
from kwire.coordinator.share.keys import ShareKey
from kwire.coordinator.share.state import ShareState
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartitionData,
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kwire.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from kwire.protocol.uuids import uuid_to_text
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic
from tests.support.running import RunningBroker
from tests.support.share_state import batches, delete, find, initialise, read, summary, write
from tests.support.waiting import eventually

SETTINGS = {"share.coordinator.state.topic.num.partitions": "3"}
E = ErrorCode


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture
def topic_id(client: RawClient) -> UUID:
    """Return the id of a topic with two partitions; share coordinators are available."""
    _, topic_id = create_topic(client, 2)
    assert find(client, f"g:{uuid_to_text(topic_id)}:0").error_code == E.NONE
    return topic_id


def test_a_topic_without_partitions_is_skipped_when_state_is_initialised(client: RawClient, topic_id: UUID) -> None:
    data = [InitializeShareGroupStatePartitionData(partition=0, start_offset=3)]
    topics = [InitializeStateData(), InitializeStateData(topic_id=topic_id, partitions=data)]
    answer = client.ask(InitializeShareGroupStateRequest(group_id="skips", topics=topics), 0)
    assert [(each.topic_id, each.partitions[0].error_code) for each in answer.results] == [(topic_id, E.NONE)]
    assert read(client, topic_id, 0, group="skips").start_offset == 3


def test_an_empty_group_id_is_rejected_with_a_message(client: RawClient) -> None:
    answer = client.ask(AlterShareGroupOffsetsRequest(), 0)
    assert (answer.error_code, bool(answer.error_message)) == (E.INVALID_GROUP_ID, True)


def test_state_is_initialised_read_written_and_deleted(client: RawClient, topic_id: UUID) -> None:
    found = find(client, f"g:{uuid_to_text(topic_id)}:0")
    assert found.error_code == E.NONE
    assert initialise(client, topic_id, 0, 1, start=10) == [E.NONE, E.NONE]
    state = read(client, topic_id, 0, leader_epoch=4)
    assert (state.error_code, state.error_message, state.state_epoch, state.start_offset) == (E.NONE, None, 0, 10)
    assert write(client, topic_id, 0, (10, 19, 2, 1), (15, 30, 0, 2), leader_epoch=4, delivery_complete_count=5) == 0
    state = read(client, topic_id, 0, leader_epoch=4)
    assert batches(state) == [(10, 14, 2, 1), (15, 30, 0, 2)]
    summed = summary(client, topic_id, 0)
    assert (summed.leader_epoch, summed.start_offset, summed.delivery_complete_count) == (4, 10, 5)
    assert summary(client, topic_id, 0, version=0).delivery_complete_count == -1
    assert delete(client, topic_id, 0) == delete(client, topic_id, 0) == E.NONE
    assert read(client, topic_id, 0).error_code == E.INVALID_REQUEST
    summed = summary(client, topic_id, 0)
    assert (summed.error_code, summed.state_epoch, summed.start_offset, summed.leader_epoch) == (E.NONE, 0, -1, 0)
    assert read(client, topic_id, 1).start_offset == 10


def test_a_read_that_waits_for_replicas_is_answered(
    broker: RunningBroker, client: RawClient, topic_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert initialise(client, topic_id, 0, 1, start=10) == [E.NONE, E.NONE]
    coordinator = broker.server.services.share_states
    read_at_once = coordinator.read

    async def read_later(key: ShareKey, *, leader_epoch: int) -> ShareState:
        await asyncio.sleep(0.01)
        answer = read_at_once(key, leader_epoch=leader_epoch)
        return await answer if isinstance(answer, Awaitable) else answer

    monkeypatch.setattr(coordinator, "read", read_later)
    assert [read(client, topic_id, each, leader_epoch=1).start_offset for each in (0, 1)] == [10, 10]


def test_older_epochs_are_fenced(client: RawClient, topic_id: UUID) -> None:
    assert initialise(client, topic_id, 0, epoch=3) == [E.NONE]
    assert read(client, topic_id, 0, leader_epoch=7).error_code == E.NONE
    assert read(client, topic_id, 0, leader_epoch=6).error_code == E.FENCED_LEADER_EPOCH
    assert write(client, topic_id, 0, state_epoch=3, leader_epoch=6) == E.FENCED_LEADER_EPOCH
    assert write(client, topic_id, 0, state_epoch=2, leader_epoch=7) == E.FENCED_STATE_EPOCH
    assert write(client, topic_id, 0, state_epoch=3, leader_epoch=7) == E.NONE
    assert write(client, topic_id, 0, state_epoch=-1, leader_epoch=-1) == E.NONE
    assert initialise(client, topic_id, 0, epoch=2) == [E.FENCED_STATE_EPOCH]
    assert initialise(client, topic_id, 0, epoch=4, start=9) == [E.NONE]
    assert read(client, topic_id, 0, leader_epoch=7).state_epoch == 4
    assert read(client, topic_id, 0, leader_epoch=6).error_code == E.FENCED_LEADER_EPOCH


def test_invalid_and_unknown_partitions_are_rejected(client: RawClient, topic_id: UUID) -> None:
    assert initialise(client, topic_id, -1, 2, 0) == [E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
    unknown = UUID(int=77)
    assert initialise(client, unknown, 0) == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert read(client, unknown, 0).error_code == E.INVALID_REQUEST
    assert write(client, unknown, 0) == E.INVALID_REQUEST
    assert delete(client, unknown, 0) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert summary(client, unknown, 0).error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, topic_id, -1) == E.INVALID_REQUEST
    assert summary(client, topic_id, -1).error_code == E.INVALID_REQUEST
    assert write(client, topic_id, 0, (5, 4, 0, 1)) == E.INVALID_REQUEST
    assert read(client, topic_id, 1).error_message == "Read operation on uninitialized share partition not allowed."


def test_requests_without_a_group_or_partitions_have_an_empty_response(client: RawClient, topic_id: UUID) -> None:
    assert initialise(client, topic_id, 0, group="") == []
    assert initialise(client, topic_id) == []
    assert client.ask(WriteShareGroupStateRequest(group_id="g", topics=[]), 1).results == []


def test_many_partitions_and_repeated_ones_are_answered_once(client: RawClient, topic_id: UUID) -> None:
    assert initialise(client, topic_id, *[0, 1] * 50) == [E.NONE] * 2


@pytest.mark.parametrize("key", ["", "g", "g:0", ":{id}:0", "  :{id}:0", "g:short:0", "g:{id}:x", "g:{id}:9999999999"])
def test_keys_of_another_form_are_invalid(client: RawClient, topic_id: UUID, key: str) -> None:
    assert find(client, key.format(id=uuid_to_text(topic_id))).error_code == E.INVALID_REQUEST


def test_older_versions_have_no_share_coordinators(client: RawClient, topic_id: UUID) -> None:
    assert find(client, f"g:{uuid_to_text(topic_id)}:0", version=5).error_code == E.INVALID_REQUEST
    assert find(client, f"a:b:{uuid_to_text(topic_id)}:+0").error_code == E.NONE


def test_the_apis_are_advertised(client: RawClient) -> None:
    keys = {each.api_key: (each.min_version, each.max_version) for each in client.ask(ApiVersionsRequest(), 2).api_keys}
    assert [keys[key] for key in range(83, 88)] == [(0, 0), (0, 0), (0, 1), (0, 0), (0, 1)]


def test_the_state_of_a_deleted_topic_is_deleted(broker: RunningBroker, client: RawClient) -> None:
    name, topic_id = create_topic(client, 2)
    assert find(client, f"g:{uuid_to_text(topic_id)}:0").error_code == E.NONE
    assert initialise(client, topic_id, 0, 1) == [E.NONE] * 2

    def stored() -> set[int]:
        shards = broker.server.services.share_states._runtime
        return {key.partition for shard in shards for key in shard.machine.partitions if key.topic_id == topic_id}

    assert broker.call(stored) == {0, 1}
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000), 6)
    eventually(lambda: not broker.call(stored), "the deletion of the state")
    assert read(client, topic_id, 0).error_code == E.INVALID_REQUEST


class NoClusterAction(Authorizer):
    """Authorizer that denies ClusterAction."""

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return operation is not Operation.CLUSTER_ACTION


def test_cluster_action_is_required(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SETTINGS) as running, running.client() as client:
        _, topic_id = create_topic(client)
        running.authorize_by(NoClusterAction())
        rejected = E.CLUSTER_AUTHORIZATION_FAILED
        assert find(client, f"g:{uuid_to_text(topic_id)}:0").error_code == rejected
        assert SHARE_STATE_TOPIC not in running.server.services.image.topics
        assert initialise(client, topic_id, 0) == [rejected]
        assert write(client, topic_id, 0) == delete(client, topic_id, 0) == rejected
        assert read(client, topic_id, 0).error_code == summary(client, topic_id, 0).error_code == rejected


def test_a_read_is_answered_after_the_leader_epoch_is_durable(tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path, SETTINGS | {"log.flush.interval.messages": "1"}) as running,
        running.client() as client,
    ):
        _, topic_id = create_topic(client, 1)
        assert find(client, f"g:{uuid_to_text(topic_id)}:0").error_code == E.NONE
        assert initialise(client, topic_id, 0, start=10) == [E.NONE]
        state = read(client, topic_id, 0, leader_epoch=4)
        assert (state.error_code, state.start_offset) == (E.NONE, 10)


def test_state_survives_a_restart(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SETTINGS) as running, running.client() as client:
        _, topic_id = create_topic(client)
        assert initialise(client, topic_id, 0) == [E.NOT_COORDINATOR]  # the topic does not exist
        assert find(client, f"g:{uuid_to_text(topic_id)}:0").error_code == E.NONE
        assert initialise(client, topic_id, 0, epoch=1, start=5) == [E.NONE]
        assert write(client, topic_id, 0, (5, 7, 2, 1), state_epoch=1, start_offset=6) == E.NONE
    with RunningBroker(tmp_path, SETTINGS) as running, running.client() as client:
        state = read(client, topic_id, 0)
        assert (state.state_epoch, state.start_offset, batches(state)) == (1, 6, [(6, 7, 2, 1)])
        assert read(client, topic_id, 0, leader_epoch=2).error_code == E.NONE
        assert read(client, topic_id, 0, leader_epoch=1).error_code == E.FENCED_LEADER_EPOCH
