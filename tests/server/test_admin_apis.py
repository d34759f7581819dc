"""Requests of admin tools to a single broker without security: each response equals Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kwire.cluster.security.authorizer import Authorizer
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
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsUserName,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kwire.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic
from tests.support.running import RunningBroker

METADATA = "__cluster_metadata"
NEVER_MADE = "never-made"


def describe_quorum(client: RawClient, *topics: tuple[str, list[int]], version: int = 2) -> Any:
    asked = [
        DescribeQuorumRequestTopicData(
            topic_name=name, partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in indexes]
        )
        for name, indexes in topics
    ]
    return client.ask(DescribeQuorumRequest(topics=asked), version)


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_of_one_is_described(broker: RunningBroker, client: RawClient, version: int) -> None:
    create_topic(client)
    answer = describe_quorum(client, (METADATA, [0]), version=version)
    (partition,) = answer.topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.leader_id, voter.replica_id, partition.observers) == (1, 1, [])
    assert partition.leader_epoch > 0
    assert partition.high_watermark == voter.log_end_offset > 1
    assert (voter.last_fetch_timestamp > 0) == (version >= 1)
    assert voter.last_caught_up_timestamp == voter.last_fetch_timestamp
    if version >= 2:
        registration = broker.call(lambda: broker.server.services.image.brokers[1])
        assert voter.replica_directory_id == registration.directories[0]
        (node,) = answer.nodes
        assert (node.node_id, [end.name for end in node.listeners]) == (1, ["CONTROLLER"])


def test_the_epoch_grows_and_the_high_watermark_is_kept(data_dir: Path) -> None:
    seen = []
    for _ in range(2):
        with RunningBroker(data_dir) as broker, broker.client() as client:
            (partition,) = describe_quorum(client, (METADATA, [0])).topics[0].partitions
            seen.append((partition.leader_epoch, partition.high_watermark))
    assert seen[1][0] == seen[0][0] + 1
    assert seen[1][1] > seen[0][1]


@pytest.mark.parametrize(
    "topics", [[("x", [0])], [(METADATA, [1])], [(METADATA, [0, 0])], [(METADATA, [0]), ("x", [0])]]
)
def test_only_the_metadata_partition_alone_is_described(client: RawClient, topics: list[Any]) -> None:
    answer = describe_quorum(client, *topics)
    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", range(3))
def test_features_are_checked(client: RawClient, version: int) -> None:
    def update(level: int) -> Any:
        key = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
        return client.ask(UpdateFeaturesRequest(feature_updates=[key]), version)

    same = update(30)
    assert (same.error_code, same.error_message) == (0, None)
    assert [result.error_code for result in same.results] == ([] if version >= 2 else [0])
    higher = update(31)
    assert higher.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Local controller 1 only supports versions" in higher.error_message


def test_resources_with_configurations_are_listed(client: RawClient) -> None:
    topic, _ = create_topic(client)

    def listed(*kinds: int, version: int = 1) -> Any:
        request = ListConfigResourcesRequest(**({"resource_types": list(kinds)} if version else {}))
        answer = client.ask(request, version)
        found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
        return answer.error_code or found

    assert (2, topic) in listed(2)
    assert listed(4) == {(4, "1")}
    assert listed(8, 4, 4) == {(4, "1"), (8, "1")}
    assert listed() >= {(2, topic), (4, "1"), (8, "1")}
    assert listed(16, 32) == set()
    assert listed(version=0) == set()
    assert listed(2, 3) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders_of_one_broker_returns_election_not_needed(client: RawClient, version: int) -> None:
    topic, _ = create_topic(client)

    def elect(wanted: list[tuple[str, list[int]]] | None, **more: int) -> Any:
        asked = (
            None
            if wanted is None
            else [ElectLeadersTopicPartitions(topic=name, partitions=indexes) for name, indexes in wanted]
        )
        return client.ask(ElectLeadersRequest(topic_partitions=asked, **more), version)

    (result,) = elect([(topic, [0, 9])]).replica_election_results
    assert [each.error_code for each in result.partition_result] == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (result,) = elect([(NEVER_MADE, [0])]).replica_election_results
    assert result.partition_result[0].error_message == f"No such topic as {NEVER_MADE}"
    everything = {each.topic: each.partition_result for each in elect(None).replica_election_results}
    assert everything[topic] == []
    if version >= 1:
        assert elect([(topic, [0])], election_type=5).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [
        (0, [1], ErrorCode.NONE),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (7, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_reassignments_to_other_brokers_are_rejected_by_a_single_broker(
    client: RawClient, index: int, replicas: list[int] | None, code: ErrorCode
) -> None:
    topic, _ = create_topic(client)
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas)]
    topics = [ReassignableTopic(name=name, partitions=partitions) for name in (topic, NEVER_MADE)]
    for version in (0, 1):
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
        assert [each.partitions[0].error_code for each in answer.responses] == [
            code,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
    listed = client.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (listed.error_code, listed.error_message, listed.topics) == (0, None, [])


def test_alter_replica_log_dirs_accepts_the_current_directory(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    with RunningBroker(tmp_path, {"log.dirs": f"{first},{second}"}) as broker, broker.client() as client:
        topic, _ = create_topic(client)
        path = broker.call(lambda: broker.server.services.partitions.find(topic, 0).log.directory)
        home = first if path.startswith(first) else second
        for target, code in [
            (home, ErrorCode.NONE),
            ("/elsewhere", ErrorCode.LOG_DIR_NOT_FOUND),
        ]:
            wanted = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=wanted)])
            (result,) = client.ask(request, 2).results
            assert [each.error_code for each in result.partitions] == [code]
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=home, topics=[AlterReplicaLogDirTopic(name=NEVER_MADE, partitions=[0])])]
        )
        assert client.ask(request, 1).results[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_scram_credentials_of_unknown_users_are_not_found(client: RawClient) -> None:
    assert client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results == []
    users = [DescribeUserScramCredentialsUserName(name=name) for name in ("once", "twice", "twice")]
    results = client.ask(DescribeUserScramCredentialsRequest(users=users), 0).results
    assert {each.user: each.error_code for each in results} == {
        "once": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }


@pytest.mark.parametrize("version", range(1, 4))
def test_acl_apis_are_disabled(broker: RunningBroker, client: RawClient, version: int) -> None:
    anything: dict[str, Any] = {"operation": 1, "permission_type": 1}
    described = client.ask(DescribeAclsRequest(resource_type_filter=1, **anything), version)
    assert (described.error_code, described.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    creation = AclCreation(resource_type=2, resource_name="t", principal="User:u", host="*", **anything)
    created = client.ask(CreateAclsRequest(creations=[creation]), version)
    deleted = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1, **anything)]), version)
    for result in (created.results[0], deleted.filter_results[0]):
        assert (result.error_code, result.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured.",
        )
    with broker.client() as other:
        other.send_bytes(other.frame(DescribeAclsRequest(resource_type_filter=0, **anything), version))
        assert other.is_closed()


def test_tokens_and_sasl_need_authentication(client: RawClient) -> None:
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert client.ask(DescribeDelegationTokenRequest(owners=None), 3).error_code == not_allowed
    assert client.ask(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), 2).error_code == not_allowed
    assert client.ask(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), 2).error_code == not_allowed
    for version in range(1, 4):
        created = client.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
        assert (created.error_code, created.principal_name) == (not_allowed, "ANONYMOUS")
    owned = client.ask(CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob"), 3)
    assert (owned.principal_name, owned.token_requester_principal_name) == ("bob", "ANONYMOUS")
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(SaslAuthenticateRequest(auth_bytes=b"x"), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_there_are_no_transactions(client: RawClient) -> None:
    states = client.ask(DescribeTransactionsRequest(transactional_ids=["a", ""]), 0).transaction_states
    assert [each.error_code for each in states] == [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REQUEST]
    for version in range(3):
        listed = client.ask(ListTransactionsRequest(state_filters=["Ongoing", "Resting"]), version)
        assert (listed.error_code, listed.unknown_state_filters, listed.transaction_states) == (0, ["Resting"], [])
    bad = client.ask(ListTransactionsRequest(transactional_id_pattern="(("), 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


class Reject(Authorizer):
    """Authorizer that denies all operations."""

    def allows(self, *asked: object) -> bool:
        return False


def test_admin_apis_require_authorization(broker: RunningBroker, client: RawClient) -> None:
    services = broker.server.services
    allowing = services.authorizer
    broker.authorize_by(Reject())
    forbidden = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    try:
        assert describe_quorum(client, (METADATA, [0])).error_code == forbidden
        assert client.ask(UpdateFeaturesRequest(feature_updates=[]), 2).error_code == forbidden
        assert client.ask(ListConfigResourcesRequest(), 1).error_code == forbidden
        assert client.ask(ElectLeadersRequest(topic_partitions=None), 2).error_code == forbidden
        assert client.ask(AlterPartitionReassignmentsRequest(topics=[]), 1).error_code == forbidden
        assert client.ask(ListPartitionReassignmentsRequest(topics=None), 0).error_code == forbidden
        assert client.ask(DescribeUserScramCredentialsRequest(users=None), 0).error_code == forbidden
        topics = [AlterReplicaLogDirTopic(name="t", partitions=[0])]
        moved = client.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/", topics=topics)]), 2)
        assert moved.results[0].partitions[0].error_code == forbidden
        (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=["t"]), 0).transaction_states
        assert state.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    finally:
        broker.authorize_by(allowing)


def test_the_directory_id_of_the_voter_is_not_reserved(client: RawClient) -> None:
    (partition,) = describe_quorum(client, (METADATA, [0])).topics[0].partitions
    assert partition.current_voters[0].replica_directory_id.int > UUID(int=100).int
