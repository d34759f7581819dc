"""Invalid names and values from clients: rejected with an error code, on an open connection, with intact log lines."""

from __future__ import annotations

import pytest

from kwire.cluster.configs.config_keys import ConfigResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsTopicRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic, unique
from tests.support.running import RunningBroker

LONGEST = 32767


def alter(client: RawClient, kind: int, name: str, **configs: str) -> tuple[int, str]:
    changes = [
        IncrementalAlterConfigsAlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in configs.items()
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


@pytest.mark.parametrize("name", ["²", "9" * 5000, "02", "9" * LONGEST])
def test_a_broker_name_that_is_no_id_is_an_invalid_request(client: RawClient, name: str) -> None:
    code, _ = alter(client, ConfigResourceType.BROKER, name)
    assert code == ErrorCode.INVALID_REQUEST


def test_an_error_that_quotes_a_long_value_still_fits_into_its_string(client: RawClient) -> None:
    topic, _ = create_topic(client)
    code, message = alter(client, ConfigResourceType.TOPIC, topic, follower_replication_throttled_replicas="é" * 16000)
    assert code == ErrorCode.INVALID_CONFIG
    assert message.endswith("...")


@pytest.mark.parametrize("version", [2, 9])
def test_a_member_of_a_client_with_the_longest_name_gets_an_id(broker: RunningBroker, version: int) -> None:
    group = unique("group")
    with broker.client(client_id="é" * (LONGEST // 2)) as client:
        client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 6)
        answer = client.ask(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=6000,
                rebalance_timeout_ms=6000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            version,
        )
    assert answer.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version > 3 else ErrorCode.NONE)
    assert answer.member_id


@pytest.mark.parametrize("is_named", [True, False])
def test_a_page_that_begins_before_the_first_partition_is_rejected(client: RawClient, is_named: bool) -> None:
    topic, _ = create_topic(client, 3)
    cursor = DescribeTopicPartitionsRequestCursor(topic_name=topic, partition_index=-(2**31))
    named = [DescribeTopicPartitionsTopicRequest(name=topic)] if is_named else []
    answer = client.ask(DescribeTopicPartitionsRequest(topics=named, response_partition_limit=2, cursor=cursor), 0)
    assert [(each.name, each.error_code, each.partitions) for each in answer.topics] == (
        [(topic, ErrorCode.INVALID_REQUEST, [])] if is_named else []
    )
    assert answer.next_cursor is None
