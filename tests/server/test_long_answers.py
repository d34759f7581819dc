"""Long responses: built in short steps, with a consistent view of the cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.chunks import CHUNK, at_once, is_many
from kwire.cluster.metadata.image import MetadataImage
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.list_offsets import (
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
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
from kwire.server.apis.cluster import describe_log_dirs
from kwire.server.apis.configs import describe_configs
from kwire.server.apis.groups import list_groups, offset_commit, offset_fetch
from kwire.server.apis.records import list_offsets
from kwire.server.apis.topics import describe_topic_partitions, metadata
from kwire.server.network.flow.turns import Share
from kwire.server.network.pending import Work, after
from kwire.server.network.response_queue import QueuedResponse, Response
from kwire.server.other_nodes.envelopes import says_not_controller
from kwire.server.requests.api import Api
from kwire.server.requests.context import RequestContext
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

TOPICS = 2 * CHUNK
PARTITIONS = 10 * CHUNK
"""Partition count of the only topic with several partitions."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(Path(tmp_path_factory.mktemp("large"))) as broker, broker.client() as client:
        topics = [
            CreatableTopic(name=f"t{number:03}", num_partitions=1, replication_factor=1) for number in range(TOPICS)
        ]
        topics.append(CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1))
        answer = client.ask(CreateTopicsRequest(topics=topics), 7)
        assert {topic.error_code for topic in answer.topics} == {0}
        assert not says_not_controller(answer)
        yield broker


@pytest.fixture
def asking(large: RunningBroker) -> Iterator[RawClient]:
    with large.client() as client:
        yield client


def context_of(broker: RunningBroker, api: Api, version: int) -> RequestContext:
    client: Any = SimpleNamespace(peer_host="127.0.0.1", peer_port=1, principal="User:ANONYMOUS")
    return RequestContext(cast("Any", broker.server.services), client, "PLAINTEXT", api.key, version, 0, "client")


def drained(pieces: Generator[None, None, Any]) -> tuple[Any, int]:
    """Return the response and the number of steps to build it."""
    steps = 1
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value, steps
        steps += 1


def asked_of(broker: RunningBroker, api: Api, request: Any, version: int) -> tuple[Any, int]:
    def ask() -> tuple[Any, int]:
        outcome = api.handle(request, context_of(broker, api, version))
        return drained(outcome) if isinstance(outcome, Generator) else (outcome, 0)

    return broker.call(ask)


def ends_of_wide(count: int) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="wide", partitions=asked)])


@pytest.mark.parametrize(
    ("api", "request_", "version", "elements"),
    [
        (metadata.API, MetadataRequest(topics=None), 12, TOPICS + PARTITIONS),
        (metadata.API, MetadataRequest(topics=[MetadataRequestTopic(name="wide")]), 12, PARTITIONS),
        (
            metadata.API,
            MetadataRequest(
                topics=[MetadataRequestTopic(name=f"none{number}") for number in range(10 * CHUNK)],
                allow_auto_topic_creation=False,
            ),
            12,
            10 * CHUNK,
        ),
        (describe_topic_partitions.API, DescribeTopicPartitionsRequest(), 0, TOPICS + PARTITIONS),
        (describe_log_dirs.API, DescribeLogDirsRequest(topics=None), 4, TOPICS + PARTITIONS),
        (list_offsets.API, ends_of_wide(PARTITIONS), 7, PARTITIONS),
    ],
)
def test_a_long_response_is_built_in_steps_and_is_complete(
    large: RunningBroker, asking: RawClient, api: Api, request_: Any, version: int, elements: int
) -> None:
    answer, steps = asked_of(large, api, request_, version)
    assert steps >= elements / CHUNK
    seen = asking.ask(request_, version)
    if api is describe_log_dirs.API:
        answer.results[0].usable_bytes = seen.results[0].usable_bytes  # other processes use the disk as well
    assert answer == seen


@pytest.mark.parametrize(
    ("api", "request_", "version"),
    [
        (metadata.API, MetadataRequest(topics=[MetadataRequestTopic(name="t000")]), 12),
        (list_offsets.API, ends_of_wide(1), 7),
    ],
)
def test_a_short_response_is_built_in_one_step(large: RunningBroker, api: Api, request_: Any, version: int) -> None:
    answer, steps = asked_of(large, api, request_, version)
    assert steps == 0
    assert len(answer.topics) == 1


def commits(client: RawClient, request: OffsetCommitRequest) -> bool:
    code: int = client.ask(request, 8).topics[0].partitions[0].error_code
    return code == 0


def test_groups_are_listed_in_pieces(large: RunningBroker, asking: RawClient) -> None:
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name="t000", partitions=[offset])]
    names = [f"group-{number}" for number in range(CHUNK)]
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=names)
    eventually(lambda: not any(each.error_code for each in asking.ask(find, 6).coordinators), "the coordinator")

    requests = [OffsetCommitRequest(group_id=name, topics=topics) for name in names]
    for request in requests:
        eventually(partial(commits, asking, request), "the commit")
    answer, steps = asked_of(large, list_groups.API, ListGroupsRequest(), 4)
    assert steps >= len(answer.groups) / CHUNK
    listed = {group.group_id for group in answer.groups}
    assert listed >= set(names)
    assert {group.group_id for group in asking.ask(ListGroupsRequest(), 4).groups} == listed


def test_offsets_of_many_partitions_are_fetched_in_pieces(large: RunningBroker, asking: RawClient) -> None:
    group = "many"
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    eventually(lambda: not asking.ask(find, 6).coordinators[0].error_code, "the coordinator")
    offsets = {
        name: list(range(count))
        for name, count in {"wide": PARTITIONS, **{f"t{n:03}": 1 for n in range(TOPICS)}}.items()
    }
    commit = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7 + index) for index in indexes
                ],
            )
            for name, indexes in offsets.items()
        ],
    )
    eventually(partial(commits, asking, commit), "the commit")
    answer, steps = asked_of(large, offset_commit.API, commit, 8)
    assert steps > 1
    answer = asking.ask(commit, 8)
    assert [topic.name for topic in answer.topics] == list(offsets)
    answered = [
        (topic.name, part.partition_index, part.error_code) for topic in answer.topics for part in topic.partitions
    ]
    assert answered == [(name, index, 0) for name, indexes in offsets.items() for index in indexes]
    expected = {(name, index): 7 + index for name, indexes in offsets.items() for index in indexes}
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in offsets.items()]
    for topics in (named, None):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        _, steps = asked_of(large, offset_fetch.API, request, 9)
        assert steps >= len(expected) / CHUNK
        fetched = asking.ask(request, 9).groups[0]
        assert [topic.name for topic in fetched.topics] == list(offsets)
        assert offsets_in(fetched.topics) == expected
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in offsets.items()]
    for old_topics in (old, None):
        answer = asking.ask(OffsetFetchRequest(group_id=group, topics=old_topics), 7)
        assert offsets_in(answer.topics) == expected


def test_a_committed_offset_of_minus_one_is_among_all(asking: RawClient) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=-1)
    topics = [OffsetCommitRequestTopic(name="t000", partitions=[partition])]
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["negative"])
    eventually(lambda: not asking.ask(find, 6).coordinators[0].error_code, "the coordinator")
    commit = OffsetCommitRequest(group_id="negative", topics=topics)
    eventually(partial(commits, asking, commit), "the commit")
    group = OffsetFetchRequestGroup(group_id="negative", topics=None)
    (fetched,) = asking.ask(OffsetFetchRequest(groups=[group]), 9).groups
    assert offsets_in(fetched.topics) == {("t000", 0): -1}


def test_a_topic_split_over_two_steps_has_one_response_element(asking: RawClient) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=n, committed_offset=1) for n in range(count)],
        )
        for name, count in (("wide", PARTITIONS), ("unknown", 20))
    ]
    request = OffsetCommitRequest(group_id="many", topics=topics)
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["many"])
    eventually(lambda: not asking.ask(find, 6).coordinators[0].error_code, "the coordinator")
    eventually(partial(commits, asking, request), "the commit")
    answer = asking.ask(request, 8)
    assert {topic.name: len(topic.partitions) for topic in answer.topics} == {"wide": PARTITIONS, "unknown": 20}
    assert len(answer.topics) == 2


def test_each_search_by_timestamp_is_a_piece(large: RunningBroker) -> None:
    """A timestamp search decompresses a batch, which takes longer than a lookup of many end offsets."""
    request = ends_of_wide(10)
    for timestamp in (0, MAX_TIMESTAMP):
        for asked in request.topics[0].partitions:
            asked.timestamp = timestamp
        assert asked_of(large, list_offsets.API, request, 7)[1] > 10


def test_a_callback_runs_after_a_response_in_steps() -> None:
    """The callback releases reserved output memory once the response of a fetch is written."""
    calls: list[str] = []

    def pieces() -> Generator[None, None, Response]:
        yield
        return None, 0

    after(None, lambda: calls.append("none"))
    assert calls == ["none"]
    work = Work(pieces(), QueuedResponse(0, blocks_later=True), Share())
    after(work, lambda: calls.append("work"))
    assert calls == ["none"]
    work.end()
    assert calls == ["none", "work"]


def offsets_in(topics: list[Any]) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.committed_offset for topic in topics for each in topic.partitions}


def test_a_response_built_in_steps_shows_one_metadata_image(large: RunningBroker, asking: RawClient) -> None:
    name = "passing"
    made = asking.ask(
        CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)]), 7
    )
    assert made.topics[0].error_code == 0
    pieces = large.call(lambda: metadata.API.handle(MetadataRequest(topics=None), context_of(large, metadata.API, 12)))
    large.call(lambda: next(pieces))
    before: MetadataImage = large.call(lambda: large.server.services.image)
    gone = asking.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6)
    assert gone.responses[0].error_code == 0
    assert name not in large.call(lambda: large.server.services.image.topics)
    answer: MetadataResponse = large.call(lambda: at_once(pieces))
    assert {topic.name: len(topic.partitions) for topic in answer.topics} == {
        topic.name: len(topic.partitions) for topic in before.topics.values()
    }


def test_pages_of_topics_follow_each_other(large: RunningBroker, asking: RawClient) -> None:
    found: list[tuple[str, int]] = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(response_partition_limit=50, cursor=cursor)
        answer = asking.ask(request, 0)
        page = [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]
        assert len(page) <= 50
        found += page
        if answer.next_cursor is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )
    topics = large.call(lambda: large.server.services.image.topics)
    assert found == [(name, index) for name in sorted(topics) for index in range(len(topics[name].partitions))]


@pytest.mark.parametrize("unknown", [3, 5 * CHUNK])
def test_unknown_topics_do_not_hide_later_topics(asking: RawClient, unknown: int) -> None:
    names = [f"a{number:05}" for number in range(unknown)]
    topics = [DescribeTopicPartitionsTopicRequest(name=name) for name in [*names, "wide"]]
    answer = asking.ask(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=1), 0)
    assert [topic.name for topic in answer.topics] == [*names, "wide"]
    assert [len(topic.partitions) for topic in answer.topics] == [0] * unknown + [1]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("wide", 1)


def test_an_answer_of_too_many_configurations_rejects_the_rest(
    large: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "SHOWN_MAX", 20)
    groups = [DescribeConfigsResource(resource_type=32, resource_name=f"g{number}") for number in range(5)]
    answer, _ = asked_of(large, describe_configs.API, DescribeConfigsRequest(resources=groups), 4)
    shown = len(answer.results[0].configs)
    assert shown > 10
    answered = -(-20 // shown)
    codes = [result.error_code for result in answer.results]
    assert codes == [0] * answered + [ErrorCode.INVALID_REQUEST] * (5 - answered)
    assert "describe fewer resources" in answer.results[-1].error_message
    assert [result.resource_name for result in answer.results] == [f"g{number}" for number in range(5)]


def test_topics_named_by_id_are_described_in_pieces_as_well(large: RunningBroker, asking: RawClient) -> None:
    topic_id = large.call(lambda: large.server.services.image.topics["wide"].topic_id)
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    answer, steps = asked_of(large, metadata.API, request, 12)
    assert steps >= PARTITIONS / CHUNK
    assert answer == asking.ask(request, 12)


@pytest.mark.parametrize(
    ("sizes", "many"),
    [([], False), ([CHUNK], False), ([CHUNK, 1], True), ([0] * CHUNK, False), ([0] * (CHUNK + 1), True)],
)
def test_a_request_is_long_when_it_exceeds_one_chunk(sizes: list[int], many: bool) -> None:
    assert is_many(iter(sizes)) is many
