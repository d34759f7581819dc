"""Dispatch table: each advertised API is served, in exactly the versions of Apache Kafka 4.3.1."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.api_keys import ApiKey
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.create_topics import CreateTopicsRequest
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.schema import find_message, schema_of
from kwire.server.apis import SERVED
from kwire.server.requests.api import Api
from kwire.server.requests.authorization import ACCESS
from tests.support.raw_client import RawClient, sized
from tests.support.running import RunningBroker

KAFKA_4_3_1 = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
}

EVERY_VERSION = [
    pytest.param(api, version, id=f"{api.key.name}-{version}")
    for api in SERVED
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.fixture
def served(client: RawClient) -> dict[int, tuple[int, int]]:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def test_each_api_is_served_in_the_versions_of_kafka(served: dict[int, tuple[int, int]]) -> None:
    for key, versions in served.items():
        assert versions == KAFKA_4_3_1[ApiKey(key)], ApiKey(key).name
    assert {ApiKey(key) for key in served} >= set(KAFKA_4_3_1), "an API is missing"


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_request_of_defaults_is_answered(client: RawClient, api: Api, version: int) -> None:
    request = request_of_defaults(api)
    response = client.ask(request, version)
    assert response is not None
    assert client.ask(ApiVersionsRequest(), 0).error_code == 0, "the connection stays"


def request_of_defaults(api: Api) -> Any:
    request = api.request()
    if isinstance(request, ApiVersionsRequest):
        request.client_software_name = request.client_software_version = "a"
    if isinstance(request, DescribeAclsRequest):
        # 0 is UNKNOWN, 1 is ANY.
        request.resource_type_filter = request.operation = request.permission_type = 1
    if isinstance(request, ProduceRequest):
        request.acks = -1  # with acks=0 there is no response
    return request


@pytest.mark.parametrize("api", [pytest.param(api, id=api.key.name) for api in SERVED])
def test_a_version_beside_the_range_closes_the_connection(broker: RunningBroker, api: Api) -> None:
    for version in (api.min_version - 1, api.max_version + 1):
        with broker.client() as client:
            flexible = version in schema_of(api.request).flexible
            client.send_bytes(sized(client.header(api.key, version, flexible=flexible) + b"\x00" * 64))
            if api.key is ApiKey.API_VERSIONS:
                assert client.receive(ApiVersionsRequest(), 0).error_code == 35
            else:
                assert client.is_closed()


@pytest.mark.parametrize("key", [key for key in range(95) if key not in {int(api.key) for api in SERVED}])
def test_row_33_an_api_that_is_not_advertised_closes_the_connection(broker: RunningBroker, key: int) -> None:
    with broker.client() as client:
        client.send_bytes(sized(struct.pack(">hhih", key, 0, 1, -1) + b"\x00" * 64))
        assert client.is_closed()


@pytest.mark.parametrize("api", [pytest.param(api, id=api.key.name) for api in SERVED])
def test_row_32_every_api_has_an_access_rule_and_a_response_class(api: Api) -> None:
    assert api.key in ACCESS
    response = find_message("response", api.key)
    assert response is not None
    assert response.cls is api.response


def test_requests_are_counted_by_api_and_version(broker: RunningBroker, client: RawClient) -> None:
    dispatcher = broker.server._listeners.first.handle.__self__  # type: ignore[attr-defined]
    before = broker.call(dispatcher.counts).get((ApiKey.LIST_GROUPS, 4), 0)
    for _ in range(3):
        client.ask(ListGroupsRequest(), 4)
    assert broker.call(dispatcher.counts)[ApiKey.LIST_GROUPS, 4] == before + 3


class Reject(Authorizer):
    """Authorizer that denies all operations."""

    def allows(self, *asked: object) -> bool:
        return False


def test_row_30_topic_group_and_cluster_apis_require_authorization(broker: RunningBroker, client: RawClient) -> None:
    services = broker.server.services
    allowing = services.authorizer
    broker.authorize_by(Reject())
    try:
        assert client.ask(CreateTopicsRequest(topics=[]), 7).topics == []
        found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators
        assert [each.error_code for each in found] == [30]
        described = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert described.cluster_authorized_operations == 0
    finally:
        broker.authorize_by(allowing)
