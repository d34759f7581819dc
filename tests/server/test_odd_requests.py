"""Invalid requests of clients, with the responses observed from Apache Kafka."""

from __future__ import annotations

import pytest

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest
from kwire.protocol.messages.fetch import FetchForgottenTopic, FetchReplicaState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce, unique
from tests.support.running import RunningBroker
from tests.support.waiting import eventually


def test_the_software_of_a_client_may_have_a_long_name(client: RawClient) -> None:
    name = "x" * 32_000
    assert client.ask(ApiVersionsRequest(client_software_name=name, client_software_version=name), 4).error_code == 0


@pytest.mark.parametrize("endpoint_type", [1, 2, 99])
def test_describe_cluster_answers_its_own_endpoint_type(client: RawClient, endpoint_type: int) -> None:
    answer = client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 2)
    assert (answer.error_code == 0) == (endpoint_type == 1)
    assert answer.endpoint_type == 1


def test_an_unknown_resource_type_fails_all_of_describe_configs(client: RawClient) -> None:
    topic, _ = create_topic(client)
    wanted = [(2, topic), (99, "x")]
    resources = [DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in wanted]
    results = client.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(each.resource_type, each.resource_name) for each in results] == wanted
    assert {(each.error_code, len(each.configs)) for each in results} == {(ErrorCode.INVALID_REQUEST, 0)}


def test_reassignments_return_the_factor_flag_only_with_topics(client: RawClient) -> None:
    for topics in ([], [ReassignableTopic(name=unique(), partitions=[ReassignablePartition(replicas=[1])])]):
        request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=False, topics=topics)
        answer = client.ask(request, 1)
        assert answer.allow_replication_factor_change is (not topics)


@pytest.mark.parametrize(("name", "index", "is_too_long"), [("n" * 213, 9, False), ("n" * 213, 10, True)])
def test_a_topic_name_too_long_for_a_future_directory_cannot_move(
    client: RawClient, name: str, index: int, is_too_long: bool
) -> None:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="nowhere", topics=topics)])
    ((partition,),) = [topic.partitions for topic in client.ask(request, 2).results]
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_too_long else ErrorCode.LOG_DIR_NOT_FOUND
    assert partition.error_code == code


@pytest.mark.parametrize("name", [".", "..", "bad name!", "n" * 250])
def test_describe_topic_partitions_tells_invalid_from_unknown_topics(client: RawClient, name: str) -> None:
    topics = [DescribeTopicPartitionsTopicRequest(name=each) for each in (name, "z" * 249)]
    answer = client.ask(DescribeTopicPartitionsRequest(topics=topics), 0)
    assert {each.name: each.error_code for each in answer.topics} == {
        name: ErrorCode.INVALID_TOPIC_EXCEPTION,
        "z" * 249: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize(
    ("producer_id", "epoch", "code"),
    [(-1, -1, 0), (-2, -2, 0), (5, -2, 0), (-2, -1, 42), (-1, 5, 42), (0, -1, 42), (-1, -2, 42)],
)
def test_a_producer_has_both_an_id_and_an_epoch_or_neither(
    client: RawClient, producer_id: int, epoch: int, code: int
) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
    )
    assert client.ask(request, 5).error_code == code


def test_metadata_makes_no_topic_that_is_named_beside_an_id(client: RawClient) -> None:
    _, topic_id = create_topic(client)
    name = unique()
    asked = MetadataRequestTopic(name=name, topic_id=topic_id)
    answer = client.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=True), 12)
    assert [topic.topic_id for topic in answer.topics] == [topic_id]
    asked = MetadataRequestTopic(name=name)
    (topic,) = client.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_id_repeated", [False, True])
def test_a_topic_that_is_named_by_its_id_as_well_is_not_deleted(client: RawClient, is_id_repeated: bool) -> None:
    topic, topic_id = create_topic(client)
    by_id = [DeleteTopicState(name=None, topic_id=topic_id)] * (1 + is_id_repeated)
    answer = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic), *by_id], timeout_ms=5000), 6)
    rejected = [(each.name, each.topic_id, each.error_code) for each in answer.responses]
    expected = [(topic, topic_id, ErrorCode.INVALID_REQUEST)]
    assert rejected == [(None, topic_id, ErrorCode.INVALID_REQUEST)] * is_id_repeated + expected
    assert produce(client, topic, batch(b"a")).error_code == 0


def test_a_partition_rejected_before_reading_has_no_aborted_transactions_and_one_rejected_later_null(
    client: RawClient,
) -> None:
    topic, _ = create_topic(client)
    assert fetch(client, unique()).aborted_transactions == []
    beyond = fetch(client, topic, 99)
    assert (beyond.error_code, beyond.aborted_transactions) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_the_log_start_offset_is_returned_with_invalid_record_only(client: RawClient) -> None:
    topic, _ = create_topic(client)
    rejected = produce(client, topic, batch(b"a", producer_id=7, producer_epoch=0, sequence=-1))
    assert (rejected.error_code, rejected.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    corrupt = produce(client, topic, batch(b"a")[:-1] + b"!")
    assert (corrupt.error_code, corrupt.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


def test_a_session_keeps_the_name_of_a_topic_that_was_deleted(client: RawClient) -> None:
    topic, topic_id = create_topic(client)
    session = client.ask(fetch_request("", topic_id=topic_id, session=(0, 0)), 13).session_id
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000), 6)
    gone = client.ask(fetch_request("", session=(session, 1)), 13).responses[0]
    assert (gone.topic_id, gone.partitions[0].error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    create_topic(client, name=topic)
    other = client.ask(fetch_request("", session=(session, 2)), 13).responses[0].partitions[0]
    assert (other.error_code, other.aborted_transactions) == (ErrorCode.INCONSISTENT_TOPIC_ID, None)
    fresh = client.ask(fetch_request("", topic_id=topic_id), 13).responses[0].partitions[0]
    assert fresh.error_code == ErrorCode.UNKNOWN_TOPIC_ID, "without a session the topic id is unknown"


def test_diverging_epochs_in_an_empty_old_fetch_return_unsupported_version(client: RawClient) -> None:
    topic, _ = create_topic(client)
    produce(client, topic, batch(b"a"))
    session = client.ask(fetch_request(topic, session=(0, 0)), 12).session_id
    parted = client.ask(fetch_request(topic, 1000, last_fetched_epoch=0, session=(session, 1)), 12)
    assert parted.responses[0].partitions[0].diverging_epoch.end_offset == 1
    old = client.ask(fetch_request("", session=(session, 2)), 11)
    assert (old.error_code, old.session_id, old.responses) == (ErrorCode.UNSUPPORTED_VERSION, session, [])


def test_created_configs_are_returned_as_sent_and_described_as_parsed(client: RawClient) -> None:
    sent = {"segment.ms": " 7 ", "retention.bytes": "+0012", "cleanup.policy": " delete , compact "}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in sent.items()]
    topic = CreatableTopic(name=unique(), num_partitions=1, replication_factor=1, configs=configs)
    (created,) = client.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert {each.name: each.value for each in created.configs if each.name in sent} == sent
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic.name, configuration_keys=list(sent))
    (described,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    read = {"segment.ms": "7", "retention.bytes": "12", "cleanup.policy": "delete,compact"}
    assert {each.name: each.value for each in described.configs} == read


def test_a_partition_beyond_max_bytes_has_null_aborted_transactions(client: RawClient) -> None:
    first, _ = create_topic(client)
    second, _ = create_topic(client)
    for topic in (first, second):
        produce(client, topic, batch(b"a"))
    request = fetch_request(first, isolation_level=1)
    request.topics += fetch_request(second, partition_max_bytes=1).topics
    reported = [topic.partitions[0] for topic in client.ask(request, 12).responses]
    assert [(bool(each.records), each.aborted_transactions) for each in reported] == [(True, []), (False, None)]
    assert fetch(client, first, 1, isolation_level=1).aborted_transactions == []


@pytest.mark.parametrize("election_type", [0, 2])
def test_elect_leaders_of_no_partitions_succeeds_with_any_type(client: RawClient, election_type: int) -> None:
    answer = client.ask(ElectLeadersRequest(election_type=election_type, topic_partitions=[]), 2)
    assert (answer.error_code, answer.replica_election_results) == (0, [])


def test_a_session_that_forgets_all_it_has_answers_what_was_named_and_ends(client: RawClient) -> None:
    topic, _ = create_topic(client)
    session = client.ask(fetch_request(topic, session=(0, 0)), 12).session_id
    forgotten = [FetchForgottenTopic(topic=topic, partitions=[0])]
    last = client.ask(fetch_request(topic, 9, session=(session, 1), forgotten=forgotten), 12)
    assert (last.session_id, last.responses[0].partitions[0].error_code) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert client.ask(fetch_request("", session=(session, 2)), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("leader_epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_fetch_by_a_broker_that_is_no_replica_is_rejected(
    client: RawClient, leader_epoch: int, code: ErrorCode
) -> None:
    topic, _ = create_topic(client)
    request = fetch_request(topic, leader_epoch=leader_epoch)
    request.replica_id = 7
    assert client.ask(request, 12).responses[0].partitions[0].error_code == code


def test_a_broker_that_is_no_replica_gets_no_address_of_the_leader(client: RawClient) -> None:
    _, topic_id = create_topic(client)
    request = fetch_request("", topic_id=topic_id)
    request.replica_state = FetchReplicaState(replica_id=7)
    answer = client.ask(request, 16)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.node_endpoints == []


def test_a_producer_epoch_below_minus_one_is_rejected(client: RawClient) -> None:
    topic, _ = create_topic(client)
    for epoch, code in ((-2, ErrorCode.INVALID_PRODUCER_EPOCH), (-1, 0)):
        sent = batch(b"a", producer_id=7, producer_epoch=epoch, sequence=0)
        assert produce(client, topic, sent).error_code == code


def test_a_partition_named_twice_in_list_offsets_is_rejected_once(client: RawClient) -> None:
    topic, _ = create_topic(client, 2)
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    (answer,) = client.ask(request, 10).topics
    assert {each.partition_index: each.error_code for each in answer.partitions} == {0: ErrorCode.INVALID_REQUEST, 1: 0}
    assert len(answer.partitions) == 2


def test_describe_producers_of_an_unknown_partition_has_an_error_message(client: RawClient) -> None:
    topics = [DescribeProducersTopicRequest(name=unique(), partition_indexes=[0])]
    ((partition,),) = [each.partitions for each in client.ask(DescribeProducersRequest(topics=topics), 0).topics]
    assert (partition.error_code, bool(partition.error_message)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


def test_metadata_without_name_and_id_is_rejected_whole(client: RawClient) -> None:
    name = unique()
    asked = [MetadataRequestTopic(name=name), MetadataRequestTopic(name=None)]
    rejected = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 12).topics
    assert {each.error_code for each in rejected} == {ErrorCode.INVALID_REQUEST}
    request = MetadataRequest(topics=asked[:1], allow_auto_topic_creation=False)
    assert client.ask(request, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_kind_of_resource_is_rejected_before_its_configurations_are_read(client: RawClient) -> None:
    config = IncrementalAlterConfigsAlterableConfig(name="segment.ms", config_operation=2, value="1")
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=0, resource_name="x", configs=[config])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_member_without_a_client_id_has_an_empty_one(broker: RunningBroker) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    group = unique("group")
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    with broker.client(client_id=None) as client:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        eventually(lambda: client.ask(find, 6).coordinators[0].error_code == 0, "a coordinator")
        eventually(lambda: client.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0].error_code == 0, "its load")
        joined = client.ask(join, 3)
        assert joined.error_code == ErrorCode.NONE
        assert joined.member_id.startswith("-")
        (member,) = client.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0].members
        assert (member.member_id, member.client_id) == (joined.member_id, "")
