"""Topics by raw requests: created, described, extended, deleted; and lookups of their offsets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.partitions.partitions import OPENED_AT_ONCE
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient
from tests.support.requests import NOW_MS, batch, create_request, create_topic, list_offset, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def metadata(client: RawClient, version: int = 12, **fields: Any) -> Any:
    given: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
    return client.ask(MetadataRequest(**(given | fields)), version)


def described(client: RawClient, name: str, **fields: Any) -> Any:
    (topic,) = metadata(client, topics=[MetadataRequestTopic(name=name)], **fields).topics
    return topic


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_at_every_version(client: RawClient, version: int) -> None:
    name = unique()
    (answer,) = client.ask(create_request(name, 3), version).topics
    assert (answer.name, answer.error_code) == (name, 0)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        assert {config.name for config in answer.configs} > {"retention.ms", "segment.bytes"}
    topic = described(client, name)
    assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
    (again,) = client.ask(create_request(name, 3), version).topics
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_one_invalid_topic_does_not_affect_the_others(client: RawClient) -> None:
    good, twice = unique(), unique()
    wishes = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (good, "a/b", twice, twice)]
    wishes.append(CreatableTopic(name=unique(), num_partitions=1, replication_factor=3))
    answers = client.ask(CreateTopicsRequest(topics=wishes, timeout_ms=1000), 7).topics
    codes = {answer.name: answer.error_code for answer in answers}
    assert len(answers) == 4
    assert codes[good] == 0
    assert codes["a/b"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes[twice] == ErrorCode.INVALID_REQUEST
    assert codes[wishes[-1].name] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert all(answer.error_message for answer in answers if answer.error_code)


def test_a_name_that_collides_is_rejected_until_the_other_is_gone(client: RawClient) -> None:
    """Metrics of both topics would have the same name."""
    name, _ = create_topic(client, name=f"{unique()}.x")
    other = name.replace(".", "_")
    rejected = client.ask(create_request(other), 7).topics[0]
    assert rejected.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert rejected.error_message == f"Topic '{other}' collides with existing topic: {name}"
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000), 6)
    assert client.ask(create_request(other), 7).topics[0].error_code == 0


def test_validate_only_creates_no_topic(client: RawClient) -> None:
    name = unique()
    request = create_request(name, 2)
    request.validate_only = True
    assert client.ask(request, 7).topics[0].error_code == 0
    assert described(client, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_may_be_assigned(client: RawClient) -> None:
    topic = CreatableTopic(
        name=unique(),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in (1, 0)],
    )
    (answer,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
    assert (answer.error_code, answer.num_partitions) == (0, 2)


def test_the_metadata_log_is_no_topic(client: RawClient) -> None:
    (answer,) = client.ask(create_request("__cluster_metadata"), 7).topics
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    topic = described(client, "__cluster_metadata", allow_auto_topic_creation=True)
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(client)  # the metadata log still accepts records


@pytest.mark.parametrize("version", range(14))
def test_metadata_at_every_version(client: RawClient, version: int) -> None:
    topic, topic_id = create_topic(client, 2)
    answer = metadata(client, version, topics=[MetadataRequestTopic(name=topic), MetadataRequestTopic(name=topic)])
    (found,) = answer.topics
    assert [(each.partition_index, each.leader_id, each.isr_nodes) for each in found.partitions] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]
    assert found.topic_id == (topic_id if version >= 10 else UUID(int=0))
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host) == (1, "127.0.0.1")


def test_metadata_of_all_none_and_by_id(client: RawClient) -> None:
    topic, topic_id = create_topic(client)
    assert topic in {each.name for each in metadata(client, topics=None).topics}
    assert topic in {each.name for each in metadata(client, 0, topics=[]).topics}
    assert metadata(client, topics=[]).topics == []
    (found,) = metadata(client, topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]).topics
    assert found.name == topic
    (missing,) = metadata(client, topics=[MetadataRequestTopic(topic_id=UUID(int=5), name=None)]).topics
    assert (missing.error_code, missing.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_metadata_creates_topics_when_auto_creation_is_allowed(client: RawClient) -> None:
    name = unique()
    assert described(client, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first = described(client, name, allow_auto_topic_creation=True)
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    eventually(lambda: described(client, name).error_code == ErrorCode.NONE, "it is made meanwhile")
    assert len(described(client, name).partitions) == 1
    bad = described(client, "a/b", allow_auto_topic_creation=True)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_authorized_operations_are_returned_when_requested(client: RawClient) -> None:
    topic, _ = create_topic(client)
    found = described(client, topic, include_topic_authorized_operations=True)
    assert found.topic_authorized_operations == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert described(client, topic).topic_authorized_operations == -(2**31)


def delete(client: RawClient, version: int, *states: DeleteTopicState) -> list[Any]:
    names = [] if version >= 6 else [state.name or "" for state in states]
    request = DeleteTopicsRequest(topics=list(states) if version >= 6 else [], topic_names=names, timeout_ms=1000)
    answers: list[Any] = client.ask(request, version).responses
    return answers


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_at_every_version(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)
    (answer,) = delete(client, version, DeleteTopicState(name=topic))
    assert (answer.name, answer.error_code) == (topic, 0)
    assert described(client, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (again,) = delete(client, version, DeleteTopicState(name=topic))
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 5, 6])
def test_an_empty_name_is_an_unknown_topic(client: RawClient, version: int) -> None:
    (answer,) = delete(client, version, DeleteTopicState(name=""))
    assert (answer.name, answer.error_code) == ("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_topics_are_deleted_by_id(client: RawClient) -> None:
    topic, topic_id = create_topic(client)
    both = DeleteTopicState(name=topic, topic_id=topic_id)
    unknown = DeleteTopicState(topic_id=UUID(int=77))
    answers = delete(client, 6, both, DeleteTopicState(), unknown)
    assert [answer.error_code for answer in answers] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    (twice,) = delete(client, 6, DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=topic_id))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    (answer,) = delete(client, 6, DeleteTopicState(topic_id=topic_id))
    assert (answer.error_code, answer.name) == (0, topic)


def test_metadata_does_not_create_internal_topics_of_unserved_coordinators(client: RawClient) -> None:
    for name in ("__transaction_state", "__share_group_state", "__cluster_metadata"):
        topic = described(client, name, allow_auto_topic_creation=True)
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def grow(
    client: RawClient, version: int, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> dict[str, int]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return {result.name: result.error_code for result in client.ask(request, version).results}


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_at_every_version(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)
    more = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    assert grow(client, version, more, validate_only=True) == {topic: 0}
    assert len(described(client, topic).partitions) == 1
    assert grow(client, version, more) == {topic: 0}
    assert len(described(client, topic).partitions) == 3
    assert produce(client, topic, batch(b"a"), partition=2).error_code == 0
    assert grow(client, version, more) == {topic: ErrorCode.INVALID_PARTITIONS}
    assert grow(client, version, more, more) == {topic: ErrorCode.INVALID_REQUEST}
    odd = CreatePartitionsTopic(name=topic, count=4, assignments=[CreatePartitionsAssignment(broker_ids=[9])])
    assert grow(client, version, odd) == {topic: ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_topics_are_described_page_by_page(client: RawClient) -> None:
    prefix = unique("page")
    names = [f"{prefix}-{letter}" for letter in "abc"]
    for name in names:
        create_topic(client, 3, name=name)
    asked = [DescribeTopicPartitionsTopicRequest(name=name) for name in names]
    seen: list[tuple[str, int]] = []
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    for _ in range(9):
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2, cursor=cursor)
        answer = client.ask(request, 0)
        seen += [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]
        if answer.next_cursor is None:
            break
        following = answer.next_cursor
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
    assert seen == [(name, index) for name in names for index in range(3)]
    missing = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsTopicRequest(name="never-made")])
    assert client.ask(missing, 0).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(broker: RunningBroker, client: RawClient, version: int) -> None:
    answer = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.cluster_id, answer.controller_id) == (broker.server.cluster_id, 1)
    assert [(each.broker_id, f"{each.host}:{each.port}") for each in answer.brokers] == [(1, broker.bootstrap_server)]
    assert answer.cluster_authorized_operations > 0
    if version >= 1:
        wrong = client.ask(DescribeClusterRequest(endpoint_type=2), version)
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        wrong = client.ask(DescribeClusterRequest(endpoint_type=9), version)
        assert wrong.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_are_described(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client, 2)
    produce(client, topic, batch(b"a"))
    asked = [DescribableLogDirTopic(topic=topic, partitions=[0])]
    (directory,) = client.ask(DescribeLogDirsRequest(topics=asked), version).results
    ((partition,),) = [each.partitions for each in directory.topics]
    assert (partition.partition_index, partition.partition_size) == (0, len(batch(b"a")))
    assert (directory.total_bytes > 0) == (version >= 4)
    (everything,) = client.ask(DescribeLogDirsRequest(topics=None), version).results
    assert topic in {each.name for each in everything.topics}


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time_at_every_version(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)
    empty = {timestamp: list_offset(client, topic, timestamp, version=version).offset for timestamp in (-1, -2, 5)}
    assert empty == {-1: 0, -2: 0, 5: -1}
    produce(client, topic, batch(b"a", b"b", timestamp=NOW_MS))
    produce(client, topic, batch(b"c", timestamp=NOW_MS + 100))

    def found(timestamp: int) -> tuple[int, int]:
        answer = list_offset(client, topic, timestamp, version=version)
        assert answer.error_code == 0
        assert answer.leader_epoch == (-1 if version < 4 or answer.offset < 0 else 0)
        return answer.offset, answer.timestamp

    assert found(-1) == (3, -1)
    assert found(-2) == (0, -1)
    assert found(0) == (0, NOW_MS)
    assert found(NOW_MS + 1) == (1, NOW_MS + 1)
    assert found(NOW_MS + 2) == (2, NOW_MS + 100)
    assert found(NOW_MS + 101) == (-1, -1)


@pytest.mark.parametrize(("timestamp", "since", "offset"), [(-3, 7, 1), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)])
def test_special_timestamps(client: RawClient, timestamp: int, since: int, offset: int) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a", b"b", timestamp=NOW_MS))
    assert list_offset(client, topic, timestamp, version=since).offset == offset
    early = list_offset(client, topic, timestamp, version=since - 1)
    assert early.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_list_offsets_rejects_unknown_timestamps_and_topics(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert list_offset(client, topic, -9, version=11).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(client, "never-made", -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_topic_id_is_rejected_before_version_12(client: RawClient, version: int) -> None:
    wishes = [MetadataRequestTopic(name="here"), MetadataRequestTopic(name="there", topic_id=UUID(int=77))]
    answer = metadata(client, version, topics=wishes)
    assert [(each.name, each.error_code) for each in answer.topics] == [("here", 42), ("there", 42)]
    assert (answer.brokers, answer.controller_id) == ([], -1)


def test_metadata_ignores_topic_names_beside_ids(client: RawClient) -> None:
    name = unique()
    create_topic(client, name=name)
    wishes = [MetadataRequestTopic(name=name), MetadataRequestTopic(topic_id=UUID(int=77), name=None)]
    (only,) = metadata(client, topics=wishes).topics
    assert (only.name, only.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(("topic", "partition"), [("other", 0), ("wanted", -1)])
def test_a_cursor_outside_the_requested_topics_is_rejected(client: RawClient, topic: str, partition: int) -> None:
    cursor = DescribeTopicPartitionsRequestCursor(topic_name=topic, partition_index=partition)
    wanted = [DescribeTopicPartitionsTopicRequest(name="wanted")]
    answer = client.ask(DescribeTopicPartitionsRequest(topics=wanted, cursor=cursor), 0)
    assert [(each.name, each.error_code) for each in answer.topics] == [("wanted", ErrorCode.INVALID_REQUEST)]


def test_authorized_operations_are_returned_for_unknown_topics(client: RawClient) -> None:
    (topic,) = client.ask(
        DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsTopicRequest(name="not-there")]), 0
    ).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.topic_authorized_operations > 0


def test_every_partition_of_a_wide_topic_takes_records_as_soon_as_it_is_made(client: RawClient) -> None:
    name, count = unique(), 5 * OPENED_AT_ONCE
    assert client.ask(create_request(name, count), 7).topics[0].error_code == 0
    wanted = [PartitionProduceData(index=index, records=batch(b"r")) for index in reversed(range(count))]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=wanted)])
    (answer,) = client.ask(request, 11).responses
    stored = {(each.index, each.error_code, each.base_offset) for each in answer.partition_responses}
    assert stored == {(index, 0, 0) for index in range(count)}
    assert len(described(client, name).partitions) == count
