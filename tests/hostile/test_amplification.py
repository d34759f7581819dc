"""Short requests: they cannot make the broker build responses, or create topics, without bounds."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.codec import decode, encode
from kwire.protocol.error_codes import ErrorCode, ProtocolError
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.protocol.schema import ELEMENTS_MAX
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, fetch_request, unique
from tests.support.waiting import eventually

TIMES = 1000


def test_a_resource_named_repeatedly_is_described_once(client: RawClient) -> None:
    topic, _ = create_topic(client)
    resource = DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=topic)
    (answer,) = client.ask(DescribeConfigsRequest(resources=[resource] * TIMES), 4).results
    assert (answer.error_code, answer.resource_name) == (0, topic)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeGroupsRequest(groups=["g"] * TIMES), 5),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)] * TIMES), 9),
    ],
)
def test_a_group_named_repeatedly_is_described_once(client: RawClient, request_: Any, version: int) -> None:
    (answer,) = client.ask(request_, version).groups
    assert answer.group_id == "g"


def test_a_partition_named_repeatedly_has_its_producers_described_once(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    asked = DescribeProducersTopicRequest(name=topic, partition_indexes=[1, 0, 1])
    (answer,) = client.ask(DescribeProducersRequest(topics=[asked] * TIMES), 0).topics
    assert [partition.partition_index for partition in answer.partitions] == [1, 0]


@pytest.mark.parametrize("version", [7, 9])
def test_a_partition_named_repeatedly_returns_its_offset_once(client: RawClient, version: int) -> None:
    """The committed metadata is a thousand times as long as the partition number in the request."""
    topic, _ = create_topic(client, 2)
    group = unique()
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m" * 4096)
    commit = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])], member_id=""
    )
    eventually(lambda: client.ask(commit, 8).topics[0].partitions[0].error_code == 0, "the offset to be committed")
    if version < 8:
        old = OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1, 0] * TIMES)
        (answer,) = client.ask(OffsetFetchRequest(group_id=group, topics=[old, old]), version).topics
    else:
        asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1, 0] * TIMES)
        groups = [OffsetFetchRequestGroup(group_id=group, topics=[asked, asked])]
        (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups[0].topics
    assert [(each.partition_index, each.committed_offset) for each in answer.partitions] == [(0, 1), (1, -1)]


def test_a_topic_named_repeatedly_is_returned_once(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    (answer,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)] * TIMES), 12).topics
    assert len(answer.partitions) == 2
    asked = [DescribeTopicPartitionsTopicRequest(name=topic)] * TIMES
    (reported,) = client.ask(DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=100), 0).topics
    assert len(reported.partitions) == 2


def test_a_transactional_id_named_repeatedly_is_described_once(client: RawClient) -> None:
    asked = DescribeTransactionsRequest(transactional_ids=["b", "a", "b"] * TIMES)
    answers = client.ask(asked, 0).transaction_states
    assert [answer.transactional_id for answer in answers] == ["b", "a"]


def test_many_topics_together_may_not_have_too_many_partitions(client: RawClient) -> None:
    names = [unique() for _ in range(3)]
    topics = [CreatableTopic(name=name, num_partitions=5000, replication_factor=1) for name in names]
    answers = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True), 7).topics
    assert {answer.error_code for answer in answers} == {ErrorCode.POLICY_VIOLATION}
    one_less = CreateTopicsRequest(topics=topics[:2], timeout_ms=1000, validate_only=True)
    assert {answer.error_code for answer in client.ask(one_less, 7).topics} == {ErrorCode.NONE}


def test_a_request_may_not_have_elements_without_end(client: RawClient) -> None:
    """Each element needs an object and a step of the handler, and all other clients wait meanwhile."""
    half = DescribeProducersTopicRequest(name="t", partition_indexes=list(range(ELEMENTS_MAX // 2)))
    frame = bytearray()
    encode(DescribeProducersRequest(topics=[half, half]), 0, frame)
    with pytest.raises(ProtocolError, match="elements"):
        decode(DescribeProducersRequest, 0, bytes(frame))
    few = DescribeProducersTopicRequest(name="t", partition_indexes=list(range(ELEMENTS_MAX // 2 - 2)))
    frame.clear()
    encode(DescribeProducersRequest(topics=[half, few]), 0, frame)
    assert len(decode(DescribeProducersRequest, 0, bytes(frame)).topics) == 2
    with pytest.raises(ConnectionError):
        client.ask(DescribeProducersRequest(topics=[half, half]), 0)


def test_an_isolation_level_that_does_not_exist(client: RawClient) -> None:
    topic, _ = create_topic(client)
    assert client.ask(fetch_request(topic, isolation_level=2), 11).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
