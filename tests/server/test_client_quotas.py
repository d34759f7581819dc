"""Client quotas over the wire: set, described, restored after a restart, and enforced."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.security.authorizer import Authorizer
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
)
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch_request, produce_request, unique
from tests.support.running import RunningBroker

PRODUCER, CONSUMER, MUTATIONS = "producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"
EXACT, DEFAULT, SPECIFIED = range(3)
Entity = tuple[tuple[str, str | None], ...]


def entry(entity: Entity, *operations: tuple[str, float | None]) -> AlterClientQuotasEntry:
    return AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            AlterClientQuotasOperation(key=key, value=value or 0.0, remove=value is None) for key, value in operations
        ],
    )


def alter(client: RawClient, *entries: AlterClientQuotasEntry, validate_only: bool = False) -> list[tuple[int, str]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answers = client.ask(request, 1).entries
    return [(answer.error_code, answer.error_message or "") for answer in answers]


def set_quota(client: RawClient, key: str, value: float | None, *, client_id: str) -> None:
    assert alter(client, entry((("client-id", client_id),), (key, value))) == [(0, "")]


def describe(
    client: RawClient, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    asked = [
        DescribeClientQuotasComponent(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    answer = client.ask(DescribeClientQuotasRequest(components=asked, strict=strict), version)
    if answer.error_code:
        assert answer.entries is None
        return answer.error_code
    return {
        tuple((each.entity_type, each.entity_name) for each in found.entity): {
            value.key: value.value for value in found.values
        }
        for found in answer.entries
    }


def test_quotas_are_found_by_filters_and_outlive_the_broker(data_dir: Path) -> None:
    alice, app = (("user", "alice"),), (("client-id", "app"), ("user", None))
    address = (("ip", "127.0.0.9"),)
    with RunningBroker(data_dir) as broker, broker.client() as client:
        assert (
            alter(
                client,
                entry(alice, (PRODUCER, 5.0), ("request_percentage", 0.5)),
                entry(app, (CONSUMER, 7.0)),
                entry(address, ("connection_creation_rate", 9.0)),
            )
            == [(0, "")] * 3
        )
        assert alter(client, entry(alice, (PRODUCER, 6.0), (CONSUMER, 1.0)), validate_only=True) == [(0, "")]
        assert alter(client, entry(alice, ("request_percentage", None), (MUTATIONS, None))) == [(0, "")]
    with RunningBroker(data_dir) as broker, broker.client() as client:
        everything = describe(client)
        assert everything == {
            alice: {PRODUCER: 5.0},
            app: {CONSUMER: 7.0},
            address: {"connection_creation_rate": 9.0},
        }
        for version in (0, 1):
            assert describe(client, ("user", EXACT, "alice"), version=version) == {alice: {PRODUCER: 5.0}}
        assert describe(client, ("user", DEFAULT, None)).keys() == {app}
        assert describe(client, ("user", DEFAULT, None), strict=True) == {}
        assert describe(client, ("user", SPECIFIED, None)).keys() == {alice, app}
        assert describe(client, ("user", SPECIFIED, None), strict=True).keys() == {alice}
        assert describe(client, ("ip", SPECIFIED, None)).keys() == {address}
        assert describe(client, strict=True) == {}
        assert broker.call(lambda: broker.server.services.quotas.active)
        assert alter(client, entry(alice, (PRODUCER, None)), entry(app, (CONSUMER, None))) == [(0, "")] * 2
        assert describe(client).keys() == {address}
        assert not broker.call(lambda: broker.server.services.quotas.active)


@pytest.mark.parametrize(
    ("entity", "operations", "why"),
    [
        ((), [(PRODUCER, 1.0)], "Invalid empty client quota entity"),
        ((("group", "g"),), [(PRODUCER, 1.0)], "Unhandled client quota entity type: group"),
        ((("user", ""),), [(PRODUCER, 1.0)], "Empty user not supported"),
        ((("user", "u"),), [(PRODUCER, 1.5)], "producer_byte_rate cannot be a fractional value."),
        ((("user", "u"),), [(PRODUCER, 0.0)], "Quota producer_byte_rate must be greater than 0"),
        ((("user", "u"),), [(PRODUCER, 1e19)], "Proposed value for producer_byte_rate is too large for a LONG."),
        ((("user", "u"),), [("speed", 1.0)], "Invalid configuration key speed"),
        (
            (("ip", "10.0.0.1"),),
            [("connection_creation_rate", 5e9)],
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ((("ip", "10.0.0.1"),), [(PRODUCER, 1.0)], f"Invalid configuration key {PRODUCER}"),
        ((("ip", "no such host"),), [("connection_creation_rate", 1.0)], "no such host is not a valid IP"),
        ((("ip", "nul\0"),), [("connection_creation_rate", 1.0)], "nul\0 is not a valid IP"),
        ((("ip", "10.0.0.1"), ("user", "u")), [(PRODUCER, 1.0)], "Invalid quota entity combination"),
        (
            (("user", "u"),),
            [(PRODUCER, 1.0), (PRODUCER, 2.0)],
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})",
        ),
    ],
)
def test_invalid_quotas_are_rejected(client: RawClient, entity: Entity, operations: list[Any], why: str) -> None:
    before = describe(client)
    ((code, message),) = alter(client, entry(entity, *operations))
    assert code == ErrorCode.INVALID_REQUEST
    assert message.startswith(why)
    assert describe(client) == before


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_quota_filters_are_rejected(client: RawClient, components: list[Any], code: ErrorCode) -> None:
    assert describe(client, *components) == code


def test_an_entity_named_twice_keeps_the_first(client: RawClient) -> None:
    twice = (("user", "twice"),)
    ((code, message),) = alter(client, entry(twice, (PRODUCER, 1.0)), entry(twice, (PRODUCER, 2.0)))
    assert (code, message.split(" C")[0]) == (ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity")
    assert describe(client, ("user", EXACT, "twice")) == {twice: {PRODUCER: 1.0}}


@pytest.mark.parametrize("acks", [-1, 0])
def test_row_41_a_producer_over_its_quota_is_muted(broker: RunningBroker, client: RawClient, acks: int) -> None:
    topic, _ = create_topic(client)
    name = unique("client")
    set_quota(client, PRODUCER, 10_000, client_id=name)
    with broker.client(client_id=name) as producer:
        request = produce_request(topic, batch(b"x" * 104_000), acks=acks)
        began = time.monotonic()
        if acks:
            throttle_ms = producer.ask(request, 9).throttle_time_ms
            assert 350 < throttle_ms < 600, "104 KB are 4 % over the 100 KB of ten seconds"
        else:
            producer.send_bytes(producer.frame(request, 9))
        assert time.monotonic() - began < 0.3, "the answer itself is not held back"
        assert producer.ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0
        assert time.monotonic() - began > 0.35
        assert client.ask(fetch_request(topic, partition_max_bytes=200_000), 12).responses[0].partitions[0].records


def test_row_41_a_consumer_over_its_quota_gets_nothing_at_first(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    for _ in range(12):
        client.ask(produce_request(topic, batch(b"x" * 9_900)), 9)
    name = unique("client")
    set_quota(client, CONSUMER, 10_000, client_id=name)
    with broker.client(client_id=name) as consumer:
        first = consumer.ask(fetch_request(topic, partition_max_bytes=500_000, session=(0, 0)), 12)
        assert first.throttle_time_ms == 0
        assert first.session_id > 0
        assert 80_000 < len(first.responses[0].partitions[0].records) <= 100_000, (
            "as much as the quota ever lets through"
        )
        again = fetch_request(topic, 8, partition_max_bytes=9_000, session=(first.session_id, 1))
        second = consumer.ask(again, 12)
        assert 0 < second.throttle_time_ms < 2_000
        assert (second.responses, second.session_id, second.error_code) == ([], first.session_id, 0)
        set_quota(client, CONSUMER, 1_000_000, client_id=name)
        again = fetch_request(topic, 8, session=(first.session_id, 2))
        third = consumer.ask(again, 12)
        assert third.throttle_time_ms == 0
        assert third.responses[0].partitions[0].records, "the session has received nothing before"


def test_an_invalid_quota_is_ignored(broker: RunningBroker, client: RawClient) -> None:
    topic, _ = create_topic(client)
    name = unique("client")
    keys = (PRODUCER, CONSUMER, MUTATIONS, "request_percentage")
    for key in keys:
        set_quota(client, key, math.nan, client_id=name)
    with broker.client(client_id=name) as limited:
        assert limited.ask(produce_request(topic, batch(b"v")), 9).throttle_time_ms == 0
        assert limited.ask(fetch_request(topic), 12).responses[0].partitions[0].records
        create_topic(limited)
    for key in keys:
        set_quota(client, key, None, client_id=name)


def test_row_41_mutations_over_the_quota_are_rejected_or_delayed(broker: RunningBroker, client: RawClient) -> None:
    name = unique("client")
    set_quota(client, MUTATIONS, 1, client_id=name)  # a low rate, so that a slow machine does not matter

    def create(version: int, partitions: int) -> Any:
        topic = CreatableTopic(name=unique(), num_partitions=partitions, replication_factor=1)
        with broker.client(client_id=name) as admin:
            return admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), version)

    assert create(7, 120).topics[0].error_code == 0, "the burst"
    rejected = create(7, 1)
    assert rejected.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert rejected.topics[0].error_message is None
    assert 0 < rejected.throttle_time_ms <= 120_000
    delayed = create(5, 3)
    assert delayed.topics[0].error_code == 0
    assert 0 < delayed.throttle_time_ms <= 123_000
    with broker.client(client_id=name) as admin:
        states = [DeleteTopicState(name=delayed.topics[0].name)]
        deleted = admin.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert deleted.throttle_time_ms > 0


def test_row_38_connections_above_the_ip_connection_rate_are_closed(data_dir: Path) -> None:
    with RunningBroker(data_dir, {"quota.window.num": "2"}) as broker, broker.client() as client:
        address = (("ip", "127.0.0.1"),)
        assert alter(client, entry(address, ("connection_creation_rate", 2.0))) == [(0, "")]
        clients = [broker.client() for _ in range(3)]
        clients[-1].send_bytes(clients[-1].frame(MetadataRequest(topics=[]), 9))
        assert clients[-1].is_closed()
        assert clients[0].ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0
        assert alter(client, entry(address, ("connection_creation_rate", None))) == [(0, "")]
        with broker.client() as again:
            assert again.ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0
        for each in clients:
            each.close()


def test_quotas_require_authorization(broker: RunningBroker, client: RawClient) -> None:
    class Reject(Authorizer):
        def allows(self, *asked: object) -> bool:
            return False

    services = broker.server.services
    allowing = services.authorizer
    broker.authorize_by(Reject())
    try:
        assert describe(client) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ((code, _),) = alter(client, entry((("user", "u"),), (PRODUCER, 1.0)))
        assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    finally:
        broker.authorize_by(allowing)
