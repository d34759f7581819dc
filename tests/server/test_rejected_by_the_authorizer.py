"""Authorizer that denies one resource type: each API responds with Kafka's error code for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kwire.cluster.security.acls import Operation, ResourceType
from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol.schema import schema_of
from kwire.server.other_nodes.active_controller import RequestOrigin
from kwire.server.requests.context import ForwardedClient
from tests.server import controller_requests
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_request, create_topic, fetch_request, produce_request
from tests.support.running import RunningBroker

E, R = ErrorCode, ResourceType
TOPIC = "seen"
TOPIC_KIND, BROKER_KIND, LOGGER_KIND, GROUP_KIND = 2, 4, 8, 32

SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@dataclasses.dataclass
class Rejecting(Authorizer):
    """Authorizer that denies all operations on some resource types."""

    kinds: tuple[ResourceType, ...]

    def allows(self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return resource not in self.kinds


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        with running.client() as client:
            create_topic(client, name=TOPIC)
            for kind, key in ((1, "x"), (0, "g")):
                client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
            (committed,) = client.ask(commit_without_a_member(), 8).topics
            assert committed.partitions[0].error_code == E.NONE
        yield running


@pytest.fixture
def reject(broker: RunningBroker) -> Iterator[Callable[..., None]]:
    """Deny operations on resource types until the test ends."""
    allowing = broker.server.services.authorizer
    yield lambda *kinds: broker.authorize_by(Rejecting(kinds))
    broker.authorize_by(allowing)


def codes_of(answer: Any) -> Iterator[ErrorCode]:
    """Yield the error codes in a response in their order, without NONE."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes_of(each)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            value = getattr(answer, field.name)
            if field.name.endswith("error_code") and value:
                yield ErrorCode(value)
            else:
                yield from codes_of(value)


def add_many() -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    asked = AddPartitionsToTxnTransaction(transactional_id="x", producer_id=1, producer_epoch=0, topics=topics)
    return AddPartitionsToTxnRequest(transactions=[asked])


def add_one() -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )


def describe_configs(kind: int, name: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])


def alter_configs(kind: int, name: str) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name)
    return IncrementalAlterConfigsRequest(resources=[resource])


def commit_offsets() -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[TxnOffsetCommitRequestPartition()])
    return TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=[topic])


def write_marker() -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])])
    return WriteTxnMarkersRequest(markers=[marker])


def delete_records() -> DeleteRecordsRequest:
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition()])])


def list_offsets() -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])])


def end_of_epoch() -> OffsetForLeaderEpochRequest:
    topic = OffsetForLeaderTopic(topic=TOPIC, partitions=[OffsetForLeaderPartition()])
    return OffsetForLeaderEpochRequest(topics=[topic])


def delete_offsets() -> OffsetDeleteRequest:
    topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition()])
    return OffsetDeleteRequest(group_id="g", topics=[topic])


def commit_without_a_member() -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(committed_offset=1)])
    return OffsetCommitRequest(group_id="g", topics=[topic])


def produce_in_transaction() -> Any:
    request = produce_request(TOPIC, batch(b"v"))
    return dataclasses.replace(request, transactional_id="x")


CASES: list[tuple[str, Any, int, ResourceType | tuple[ResourceType, ...], ErrorCode]] = [
    ("add-offsets", AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), 3, R.TRANSACTIONAL_ID, E(53)),
    ("add-offsets-of-group", AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), 3, R.GROUP, E(30)),
    ("add-many", add_many(), 4, R.CLUSTER, E(31)),
    ("add-partition-to-id", add_one(), 3, R.TRANSACTIONAL_ID, E(53)),
    ("add-partition", add_one(), 3, R.TOPIC, E(29)),
    ("create-partitions", CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC)]), 3, R.TOPIC, E(29)),
    ("delete-records", delete_records(), 2, R.TOPIC, E(29)),
    ("delete-topic", DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6, (R.TOPIC, R.CLUSTER), E(29)),
    ("describe-topic-config", describe_configs(TOPIC_KIND, TOPIC), 4, R.TOPIC, E(29)),
    ("describe-group-config", describe_configs(GROUP_KIND, "g"), 4, R.GROUP, E(30)),
    ("describe-broker-config", describe_configs(BROKER_KIND, "1"), 4, R.CLUSTER, E(31)),
    ("describe-loggers", describe_configs(LOGGER_KIND, "1"), 4, R.CLUSTER, E(31)),
    ("alter-topic-config", alter_configs(TOPIC_KIND, TOPIC), 1, R.TOPIC, E(29)),
    ("alter-group-config", alter_configs(GROUP_KIND, "g"), 1, R.GROUP, E(30)),
    ("alter-broker-config", alter_configs(BROKER_KIND, "1"), 1, R.CLUSTER, E(31)),
    ("describe-log-dirs", DescribeLogDirsRequest(topics=None), 4, R.CLUSTER, E(31)),
    (
        "describe-producers",
        DescribeProducersRequest(topics=[DescribeProducersTopicRequest(name=TOPIC, partition_indexes=[0])]),
        0,
        R.TOPIC,
        E(29),
    ),
    (
        "describe-topic-partitions",
        DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsTopicRequest(name=TOPIC)]),
        0,
        R.TOPIC,
        E(29),
    ),
    ("end", EndTxnRequest(transactional_id="x"), 4, R.TRANSACTIONAL_ID, E(53)),
    ("fetch", fetch_request(TOPIC), 12, R.TOPIC, E(29)),
    ("init", InitProducerIdRequest(transactional_id="x"), 5, R.TRANSACTIONAL_ID, E(53)),
    ("init-idempotent", InitProducerIdRequest(transactional_id=None), 5, (R.CLUSTER, R.TOPIC), E(31)),
    ("list-offsets", list_offsets(), 8, R.TOPIC, E(29)),
    ("metadata", MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12, R.TOPIC, E(29)),
    ("delete-offsets", delete_offsets(), 0, R.TOPIC, E(29)),
    ("end-of-epoch", end_of_epoch(), 4, (R.TOPIC, R.CLUSTER), E(29)),
    ("produce", produce_request(TOPIC, batch(b"v")), 11, R.TOPIC, E(29)),
    ("produce-in-transaction", produce_in_transaction(), 11, R.TRANSACTIONAL_ID, E(53)),
    ("commit-offsets", commit_offsets(), 4, R.TRANSACTIONAL_ID, E(53)),
    ("commit-offsets-of-group", commit_offsets(), 4, R.GROUP, E(30)),
    ("commit-offsets-of-topic", commit_offsets(), 4, R.TOPIC, E(29)),
    ("unregister", UnregisterBrokerRequest(broker_id=9), 0, R.CLUSTER, E(31)),
    ("write-markers", write_marker(), 1, R.CLUSTER, E(31)),
]


@pytest.mark.parametrize(("name", "request_", "version", "kind", "code"), CASES, ids=[case[0] for case in CASES])
def test_row_29_unauthorized_requests_return_the_authorization_error(
    broker: RunningBroker,
    client: RawClient,
    reject: Callable[..., None],
    name: str,
    request_: Any,
    version: int,
    kind: ResourceType | tuple[ResourceType, ...],
    code: ErrorCode,
) -> None:
    reject(*(kind if isinstance(kind, tuple) else (kind,)))
    assert list(codes_of(client.ask(request_, version))) == [code], name
    assert broker.call(lambda: TOPIC in broker.server.services.image.topics)


def test_row_32_create_topics_requires_authorization_for_the_topic_or_the_cluster(
    broker: RunningBroker, client: RawClient, reject: Callable[..., None]
) -> None:
    for kind, name in ((R.CLUSTER, "by-topic"), (R.TOPIC, "by-cluster")):
        reject(kind)
        assert client.ask(create_request(name), 7).topics[0].error_code == E.NONE
    reject(R.TOPIC, R.CLUSTER)
    (rejected,) = client.ask(create_request("neither"), 7).topics
    assert (rejected.error_code, rejected.error_message) == (E.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def test_a_topic_that_must_not_be_deleted_stays_when_it_is_named_by_its_id(
    client: RawClient, reject: Callable[..., None]
) -> None:
    _, topic_id = create_topic(client)
    reject(R.TOPIC, R.CLUSTER)
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)])
    (rejected,) = client.ask(by_id, 6).responses
    assert rejected.error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert (rejected.name, rejected.topic_id) == (None, topic_id)


def test_log_directories_are_hidden_without_a_code_in_old_versions(
    client: RawClient, reject: Callable[..., None]
) -> None:
    reject(R.CLUSTER)
    answer = client.ask(DescribeLogDirsRequest(topics=None), 2)
    assert answer.results == []


def test_a_transaction_is_described_without_topics_that_the_client_may_not_see(
    broker: RunningBroker, client: RawClient, reject: Callable[..., None]
) -> None:
    init = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    assert init.error_code == E.NONE
    add = dataclasses.replace(
        add_one(), v3_and_below_producer_id=init.producer_id, v3_and_below_producer_epoch=init.producer_epoch
    )
    assert list(codes_of(client.ask(add, 3))) == []
    described = DescribeTransactionsRequest(transactional_ids=["x"])
    (state,) = client.ask(described, 0).transaction_states
    assert [topic.topic for topic in state.topics] == [TOPIC]
    reject(R.TOPIC)
    (state,) = client.ask(described, 0).transaction_states
    assert (state.transaction_state, state.topics) == ("Ongoing", [])


def test_unauthorized_operations_are_not_listed(client: RawClient, reject: Callable[..., None]) -> None:
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    assert client.ask(request, 10).cluster_authorized_operations > 0
    reject(R.CLUSTER)
    assert client.ask(request, 10).cluster_authorized_operations == 0


@pytest.mark.parametrize(
    "make", ["heartbeat", "registration", "producer_ids", "assign", "vote", "begin_epoch", "fetch"]
)
def test_row_32_controller_apis_require_cluster_action(
    broker: RunningBroker, reject: Callable[..., None], make: str
) -> None:
    world = controller_requests.World(leader_id=1, other_id=2, epoch=1, broker_epoch=1)
    request = getattr(controller_requests, make)(world)
    reject(R.CLUSTER)
    answer = broker.start(at_controller(broker, request)).result(30)
    assert answer.error_code == E.CLUSTER_AUTHORIZATION_FAILED


def test_row_33_an_envelope_requires_cluster_action(broker: RunningBroker, reject: Callable[..., None]) -> None:
    world = controller_requests.World(leader_id=1, other_id=2, epoch=1, broker_epoch=1)
    reject(R.CLUSTER)
    answer = broker.start(at_controller(broker, controller_requests.envelope()(world))).result(30)
    assert (answer.error_code, answer.response_data) == (E.CLUSTER_AUTHORIZATION_FAILED, None)


async def at_controller(broker: RunningBroker, request: Any) -> Any:
    """Return the response of the controller in the same process."""
    client = ForwardedClient(peer_host="127.0.0.1", peer_port=1, principal="User:node")
    version = schema_of(type(request)).versions.high
    request_origin = RequestOrigin(client=client, client_id=None, listener_name="CONTROLLER", version=version)
    controller = broker.server._controller
    assert controller is not None
    answer = partial(controller.serve_here, request, request_origin)()
    return await answer if hasattr(answer, "__await__") else answer
