"""Streams groups over the wire: internal topics, offsets, authorization, and the feature that enables the protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatKeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.coordinator.streams_script import topology_of
from tests.support.raw_client import RawClient
from tests.support.running import RunningBroker

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
TOPIC_RESOURCE = 2
MISSING_INTERNAL = 3
LONG = "x" * 1001


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        with running.client() as client:
            topics = [CreatableTopic(name="in", num_partitions=3, replication_factor=1)]
            assert client.ask(CreateTopicsRequest(topics=topics), 7).topics[0].error_code == ErrorCode.NONE
            _find_coordinator(client)
        yield running


def _find_coordinator(client: RawClient) -> None:
    deadline = time.monotonic() + 20
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while client.ask(request, 6).coordinators[0].error_code and time.monotonic() < deadline:
        time.sleep(0.05)


def beat(client: RawClient, group: str, epoch: int = 0, **fields: Any) -> StreamsGroupHeartbeatResponse:
    """Send a heartbeat of member a, which joins with a topology at epoch 0."""
    topology = topology_of({"0": "in/>rep", "1": "<rep/!log"}, 0) if epoch == 0 else None
    given: dict[str, Any] = {
        "group_id": group,
        "member_id": "a",
        "member_epoch": epoch,
        "rebalance_timeout_ms": 60_000 if epoch == 0 else -1,
        "topology": topology,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        **fields,
    }
    response = client.ask(StreamsGroupHeartbeatRequest(**given), 0)
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    return response


def _tasks(response: StreamsGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {each.subtopology_id: each.partitions for each in response.active_tasks or ()}


def test_internal_topics_are_created_and_tasks_are_assigned(client: RawClient) -> None:
    response = beat(client, "g")
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert _tasks(response) or [status.status_code for status in response.status or ()] == [MISSING_INTERNAL]
    deadline = time.monotonic() + 20
    while response.status and time.monotonic() < deadline:
        time.sleep(0.05)
        response = beat(client, "g", response.member_epoch)
    assert _tasks(response) == {"0": [0, 1, 2], "1": [0, 1, 2]}
    names = [MetadataRequestTopic(name=name) for name in ("rep", "log")]
    assert [len(topic.partitions) for topic in client.ask(MetadataRequest(topics=names), 12).topics] == [3, 3]
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="log", configuration_keys=["cleanup.policy"]
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [entry.value for entry in result.configs] == ["compact"]
    (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True), 0).groups
    assert (group.error_code, group.group_state, group.authorized_operations > 0) == (ErrorCode.NONE, "Stable", True)
    assert [each.subtopology_id for each in group.topology.subtopologies] == ["0", "1"]
    listed = client.ask(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    assert ("g", "streams", "streams") in [(each.group_id, each.group_type, each.protocol_type) for each in listed]
    assert beat(client, "g", -1).member_epoch == -1
    assert client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == ErrorCode.NONE
    (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_that_cannot_be_created_is_named(client: RawClient) -> None:
    topology = topology_of({"0": "in/!failing"}, 0)
    topology.subtopologies[0].state_changelog_topics[0].replication_factor = 3  # there is one broker
    response = beat(client, "failing", topology=topology)
    deadline = time.monotonic() + 20
    while "failed" not in (response.status or [])[0].status_detail and time.monotonic() < deadline:
        time.sleep(0.05)
        response = beat(client, "failing", response.member_epoch)
    (status,) = response.status or []
    assert status.status_detail.startswith("Internal topics are missing: failing; Creation failed: failing (")


def test_topologies_with_prohibited_topics_are_rejected(client: RawClient) -> None:
    for names, message in (
        (
            "in/__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        ("in/a b", "Topic names a b are not valid topic names."),
    ):
        response = beat(client, "names", topology=topology_of({"0": names}, 0))
        assert (response.error_code, response.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def test_a_large_topology_is_processed_in_pieces(client: RawClient) -> None:
    """The members join, rejoin with the same topology, and are rejected with another one."""
    texts = {f"s{number:03}": f"in/<big{number}*1/!own{number}" for number in range(150)}
    response = beat(client, "large", topology=topology_of(texts, 0))
    assert [status.status_code for status in response.status or []] == [MISSING_INTERNAL]
    again = beat(client, "large", topology=topology_of(texts, 0))
    assert again.error_code == ErrorCode.NONE
    other = beat(client, "large", member_id="b", topology=topology_of({**texts, "s000": "in"}, 0))
    assert (other.error_code, other.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    too_large = {f"s{number}": "/".join(f"t{index}" for index in range(100)) for number in range(100)}
    rejected = beat(client, "large", topology=topology_of(too_large, 0))
    assert rejected.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert rejected.error_message == "The topology has 10100 elements, and this broker accepts at most 10000."
    deadline = time.monotonic() + 60
    while response.status and time.monotonic() < deadline:
        time.sleep(0.1)
        response = beat(client, "large", topology=topology_of(texts, 0))
    assert not response.error_code
    assert len(_tasks(response)) == len(texts)


class Allow(Authorizer):
    """Authorizer that allows some operations."""

    def __init__(self, *allowed: tuple[Operation, ResourceType, str]) -> None:
        self._allowed = allowed

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return any(each == (operation, resource, name) for each in self._allowed)


def test_clients_need_authorization_for_the_group_and_all_topics(broker: RunningBroker, client: RawClient) -> None:
    allowing = broker.server.services.authorizer
    group = (Operation.READ, ResourceType.GROUP, "rights"), (Operation.DESCRIBE, ResourceType.GROUP, "rights")
    topics = [(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in ("in", "rep2", "log2")]
    create = [(Operation.CREATE, ResourceType.TOPIC, "rep2")]
    topology = topology_of({"0": "in/>rep2", "1": "<rep2/!log2"}, 0)
    try:
        broker.authorize_by(Allow())
        assert beat(client, "rights", topology=topology).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        broker.authorize_by(Allow(*group, *topics[:2]))
        assert beat(client, "rights", topology=topology).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        broker.authorize_by(Allow(*group, *topics, *create))
        (status,) = beat(client, "rights", topology=topology).status or []
        assert status.status_detail.endswith("; Unauthorized to CREATE on topics log2.")
        describe = StreamsGroupDescribeRequest(group_ids=["rights", "other"])
        described = client.ask(describe, 0).groups
        assert [each.error_code for each in described] == [ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED]
        broker.authorize_by(Allow(*group))
        described = client.ask(describe, 0).groups
        assert described[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    finally:
        broker.authorize_by(allowing)


def test_without_the_feature_the_protocol_is_unsupported(client: RawClient) -> None:
    for level, expected in ((0, ErrorCode.UNSUPPORTED_VERSION), (1, ErrorCode.NONE)):
        update = FeatureUpdateKey(feature="streams.version", max_version_level=level, upgrade_type=1 if level else 2)
        changed = client.ask(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000), 1)
        assert changed.error_code == ErrorCode.NONE
        deadline = time.monotonic() + 20
        while (code := beat(client, "feature").error_code) != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        assert code == expected
        (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=["feature"]), 0).groups
        assert group.error_code == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": LONG},
        {"process_id": LONG},
        {"rack_id": LONG},
        {"user_endpoint": StreamsGroupHeartbeatEndpoint(host=LONG, port=1)},
        {"client_tags": [StreamsGroupHeartbeatKeyValue(key="zone", value=LONG)]},
    ],
    ids=["member", "process", "rack", "endpoint", "tag"],
)
def test_texts_of_a_member_are_bounded(client: RawClient, fields: dict[str, Any]) -> None:
    assert beat(client, "texts", **fields).error_code == ErrorCode.INVALID_REQUEST


def test_names_of_a_topology_are_bounded(client: RawClient) -> None:
    long_ids = topology_of({f"{number}{'x' * 30_000}": "in" for number in range(10)}, 0)
    began = time.process_time()
    assert beat(client, "names", topology=long_ids).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert time.process_time() - began < 1
    invalid = topology_of({"0": "/".join(f"{number}{'%' * 240}" for number in range(200))}, 0)
    answer = beat(client, "names", topology=invalid)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer.error_message is not None
    assert answer.error_message.endswith("...")
