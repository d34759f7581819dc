"""Additional partitions of __consumer_offsets and __transaction_state while groups and transactions use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.log.support import batch
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, produce_request
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

GROUPS = [f"group-{number}" for number in range(8)]
IDS = [f"id-{number}" for number in range(8)]
GROUP, TRANSACTION = 0, 1
SIZES = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path, SIZES) as running:
        yield running


def await_coordinator(client: RawClient, kind: int, key: str) -> None:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    eventually(lambda: client.ask(request, 4).coordinators[0].error_code == 0, f"a coordinator of {key}")


def commit(client: RawClient, group: str, topic: str, offset: int) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])])
    return ErrorCode(client.ask(request, 8).topics[0].partitions[0].error_code)


def committed(client: RawClient, group: str, topic: str) -> int:
    request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
    return int(client.ask(request, 7).topics[0].partitions[0].committed_offset)


def grow(client: RawClient, count: int) -> None:
    topics = [
        CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name in ("__consumer_offsets", "__transaction_state")
    ]
    results = client.ask(CreatePartitionsRequest(topics=topics, timeout_ms=5000), 3).results
    assert [each.error_code for each in results] == [0, 0]


def partitions_of(broker: RunningBroker, topic: str) -> int:
    return broker.call(lambda: len(broker.server.services.image.topics[topic].partitions))


def test_adding_partitions_to_internal_topics_moves_no_coordinator(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    for group in GROUPS:
        await_coordinator(client, GROUP, group)
        assert commit(client, group, topic, 5) is ErrorCode.NONE
    producers = {}
    for number, transactional_id in enumerate(IDS):
        await_coordinator(client, TRANSACTION, transactional_id)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = client.ask(request, 5)
        producers[transactional_id] = answer.producer_id
        records = batch(b"a", producer_id=answer.producer_id, producer_epoch=0, sequence=0, transactional=True)
        produce = produce_request(topic, bytes(records))
        produce.transactional_id = transactional_id
        sent = client.ask(produce, 12).responses[0].partition_responses[0]
        assert (sent.error_code, sent.base_offset) == (0, number)
    grow(client, 8)
    eventually(lambda: partitions_of(broker, "__consumer_offsets") == 8, "the topic to grow")
    for group in GROUPS:
        await_coordinator(client, GROUP, group)
        assert committed(client, group, topic) == 5
        assert commit(client, group, topic, 6) is ErrorCode.NONE
        assert committed(client, group, topic) == 6
    for transactional_id, producer_id in producers.items():
        await_coordinator(client, TRANSACTION, transactional_id)
        end = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=0, committed=True
        )
        assert client.ask(end, 5).error_code == ErrorCode.NONE


def test_a_recreated_internal_topic_has_its_own_partition_count(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    await_coordinator(client, GROUP, "g")
    partition_for = broker.server.services.groups.partition_for
    found = {broker.call(lambda key=key: partition_for(key)) for key in GROUPS}  # type: ignore[misc]
    assert found == {0, 1, 2}
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=5000)
    assert client.ask(delete, 6).responses[0].error_code == ErrorCode.NONE
    create_topic(client, 1, name="__consumer_offsets")
    await_coordinator(client, GROUP, "g")
    assert {broker.call(lambda key=key: partition_for(key)) for key in GROUPS} == {0}  # type: ignore[misc]
    eventually(lambda: commit(client, "g", topic, 1) is ErrorCode.NONE, "a commit")
