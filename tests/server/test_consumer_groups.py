"""Consumer groups of KIP-848 over a socket: the APIs, their versions, and what enables them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic
from tests.support.running import RunningBroker
from tests.support.waiting import eventually

GROUP = "g"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", {"group.consumer.assignment.interval.ms": "0"}) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        wait_for_coordinator(connected)
        yield connected


def wait_for_coordinator(client: RawClient) -> None:
    """Wait until this broker coordinates the group."""
    request = FindCoordinatorRequest(key="", coordinator_keys=[GROUP])
    eventually(lambda: client.ask(request, 4).coordinators[0].error_code == 0, "the coordinator is found")
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    eventually(lambda: client.ask(fetch, 8).groups[0].error_code == 0, "the coordinator is loaded")


def beat(client: RawClient, member_id: str = "m", epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], **fields}
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
    answer: ConsumerGroupHeartbeatResponse = client.ask(request, 1)
    return answer


def test_texts_of_a_member_are_bounded(client: RawClient) -> None:
    assert beat(client, "m" * 1000, subscribed_topic_names=["t"]).error_code == ErrorCode.NONE
    rejected = beat(client, "m" * 1001, subscribed_topic_names=["t"])
    assert rejected.error_code == ErrorCode.INVALID_REQUEST
    assert rejected.error_message == "MemberId has 1001 characters; this broker accepts at most 1000."
    too_long: list[dict[str, Any]] = [{"instance_id": "i" * 1001}, {"rack_id": "r" * 1001}]
    for fields in too_long:
        assert beat(client, subscribed_topic_names=["t"], **fields).error_code == ErrorCode.INVALID_REQUEST


def owned(answer: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert answer.assignment is not None, answer
    return sorted(index for topic in answer.assignment.topic_partitions for index in topic.partitions)


def test_a_member_receives_all_partitions_of_its_topic(client: RawClient) -> None:
    create_topic(client, 3, name="t")
    answer = beat(client, subscribed_topic_names=["t"])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
    assert owned(answer) == [0, 1, 2]
    assert answer.heartbeat_interval_ms == 5_000
    assert beat(client, epoch=2).assignment is None, "an unchanged assignment is not repeated"


def test_a_created_topic_is_announced_to_groups_with_regular_expressions(
    broker: RunningBroker, client: RawClient
) -> None:
    groups = broker.server.services.groups
    before = broker.call(lambda: groups._newest_topics_version)
    create_topic(client, 1, name="t")
    after = broker.call(lambda: groups._newest_topics_version)
    assert after > before
    assert broker.call(lambda: "t" in broker.server.services.image.topics)


def test_many_subscribed_topics_are_checked_in_pieces(client: RawClient) -> None:
    create_topic(client, 2, name="t")
    names = ["t", *(f"missing{number}" for number in range(1_000))]
    assert owned(beat(client, subscribed_topic_names=names)) == [0, 1]


def test_one_of_many_topics_without_authorization_rejects_the_heartbeat(
    broker: RunningBroker, client: RawClient
) -> None:
    class HidesOne(Authorizer):
        def allows(self, _: str, __: str, operation: Operation, resource: ResourceType, name: str) -> bool:
            return (operation, resource, name) != (Operation.DESCRIBE, ResourceType.TOPIC, "hidden")

    broker.authorize_by(HidesOne())
    names = [*(f"topic{number}" for number in range(500)), "hidden"]
    for subscription in (names, ["hidden"]):
        answer = beat(client, subscribed_topic_names=subscription)
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_is_described_with_its_members(client: RawClient) -> None:
    create_topic(client, 2, name="t")
    beat(client, subscribed_topic_names=["t"])
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "none", GROUP], include_authorized_operations=True)
    found, missing = client.ask(request, 1).groups
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
    assert found.assignor_name == "uniform"
    assert [(member.member_id, member.member_type) for member in found.members] == [("m", 1)]
    assert found.authorized_operations > 0
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_cluster_without_the_feature_returns_unsupported_version(client: RawClient) -> None:
    key = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    answer = client.ask(UpdateFeaturesRequest(feature_updates=[key]), 1)
    assert answer.error_code == 0, answer
    eventually(
        lambda: beat(client, subscribed_topic_names=["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION,
        "the feature is disabled",
    )
    (described,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1).groups
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_without_the_protocol_returns_unsupported_version(tmp_path: Path) -> None:
    config = {"group.coordinator.rebalance.protocols": "classic"}
    with RunningBroker(tmp_path / "data", config) as running, running.client() as client:
        wait_for_coordinator(client)
        assert beat(client, subscribed_topic_names=["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_large_assignment_is_computed_in_the_background(client: RawClient) -> None:
    for number in range(11):
        create_topic(client, 200, name=f"t{number}")
    names = [f"t{number}" for number in range(11)]
    first = beat(client, subscribed_topic_names=names)
    assert (first.error_code, owned(first)) == (0, [])
    epoch = first.member_epoch

    def assigned() -> bool:
        nonlocal epoch
        answer = beat(client, epoch=epoch)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        return answer.assignment is not None and len(owned(answer)) == 2_200

    assert eventually(assigned, "the partitions are assigned")


def test_a_deleted_group_leaves_no_object(broker: RunningBroker, client: RawClient) -> None:
    create_topic(client, name="t")
    joined = beat(client, subscribed_topic_names=["t"])
    assert beat(client, epoch=joined.member_epoch).error_code == ErrorCode.NONE
    groups = broker.server.services.groups
    left = broker.call(lambda: ref(groups._shard(GROUP).machine.groups[GROUP]))
    assert beat(client, epoch=-1).error_code == ErrorCode.NONE
    assert client.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2).results[0].error_code == ErrorCode.NONE
    eventually(lambda: gc.collect() >= 0 and left() is None, "the group is freed")
