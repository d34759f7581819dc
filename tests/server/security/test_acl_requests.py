"""CreateAcls, DescribeAcls and DeleteAcls, and what the entries allow from then on, as in Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cluster.controller.limits import RECORDS_PER_OPERATION_MAX
from kwire.cluster.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_acls import CreateAclsRequest
from kwire.protocol.messages.delete_acls import DeleteAclsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.security.acl_requests import (
    EVERYTHING,
    ROOT,
    SECURED,
    client_of,
    create,
    delete,
    delete_request,
    describe,
    describe_request,
    entry,
    exactly,
)
from tests.support.raw_client import RawClient
from tests.support.requests import batch, create_topic, fetch, produce, unique
from tests.support.running import RunningBroker

E, Op, R = ErrorCode, Operation, ResourceType
OK = (E.NONE, "")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker"), SECURED) as running:
        yield running


@pytest.fixture
def root(broker: RunningBroker) -> Iterator[RawClient]:
    with client_of(broker, ROOT) as client:
        yield client
        delete(client, EVERYTHING)


@pytest.fixture
def alice(broker: RunningBroker) -> Iterator[RawClient]:
    with client_of(broker, "User:alice") as client:
        yield client


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_are_created_described_and_deleted(root: RawClient, version: int) -> None:
    entries = [entry(), entry(Op.WRITE, pattern=PatternType.PREFIXED), entry(host="::1", resource=R.GROUP)]
    assert create(root, *entries, entries[0], version=version) == [OK] * 4
    assert describe(root, version=version) == set(entries)
    assert describe(root, EVERYTHING._replace(resource_type=R.GROUP), version=version) == {entries[2]}
    assert delete(root, exactly(entries[0]), exactly(entries[0]), exactly(entry(Op.ALTER)), version=version) == [
        {entries[0]},
        {entries[0]},
        set(),
    ]
    assert delete(root, EVERYTHING, version=version) == [set(entries[1:])]
    assert describe(root, version=version) == set()


def test_an_entry_that_exists_is_not_stored_again(broker: RunningBroker, root: RawClient) -> None:
    create(root, entry())
    before = broker.call(lambda: broker.server.metadata_log.image.offset)
    assert create(root, entry()) == [OK]
    assert broker.call(lambda: broker.server.metadata_log.image.offset) == before


FILTERS = [
    (EVERYTHING._replace(resource_name="ab", pattern_type=PatternType.MATCH), ["all", "literal", "prefixed"]),
    (EVERYTHING._replace(resource_name="ab", pattern_type=PatternType.ANY), ["literal"]),
    (EVERYTHING._replace(resource_name="a", pattern_type=PatternType.ANY), ["prefixed"]),
    (EVERYTHING._replace(resource_name="*", pattern_type=PatternType.LITERAL), ["all"]),
    (EVERYTHING._replace(pattern_type=PatternType.PREFIXED), ["prefixed"]),
    (EVERYTHING._replace(principal="User:bob"), ["all"]),
    (EVERYTHING._replace(host="10.0.0.1"), ["prefixed"]),
    (EVERYTHING._replace(operation=Op.ALL), ["all"]),
    (EVERYTHING._replace(permission=Permission.DENY), ["literal"]),
    (EVERYTHING._replace(resource_type=R.GROUP), []),
    (EVERYTHING._replace(resource_type=99), []),
]


@pytest.mark.parametrize(("acl_filter", "names"), FILTERS, ids=str)
def test_a_filter_selects_entries(root: RawClient, acl_filter: AclFilter, names: list[str]) -> None:
    entries = {
        "literal": entry(name="ab", permission=Permission.DENY),
        "prefixed": entry(name="a", pattern=PatternType.PREFIXED, host="10.0.0.1"),
        "all": entry(Op.ALL, name="*", principal="User:bob"),
    }
    create(root, *entries.values())
    assert describe(root, acl_filter) == {entries[name] for name in names}


BAD_ENTRIES = [
    (entry(resource=R.CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
    (entry(name=""), "Invalid empty resource name"),
    (entry(resource=R.ANY), "Invalid resourceType ANY"),
    (entry()._replace(resource_type=99), "Invalid resourceType UNKNOWN"),
    (entry(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
    (entry(pattern=PatternType.ANY), "Invalid patternType ANY"),
    (entry()._replace(pattern_type=9), "Invalid patternType UNKNOWN"),
    (entry(Op.ANY), "Invalid operation ANY"),
    (entry()._replace(operation=99), "Invalid operation UNKNOWN"),
    (entry(permission=Permission.ANY), "Invalid permissionType ANY"),
    (entry()._replace(permission=9), "Invalid permissionType UNKNOWN"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_ENTRIES, ids=str)
def test_an_invalid_entry_is_rejected_and_the_others_are_stored(root: RawClient, bad: Acl, message: str) -> None:
    assert create(root, entry(), bad, entry(Op.WRITE)) == [OK, (E.INVALID_REQUEST, message), OK]
    assert describe(root) == {entry(), entry(Op.WRITE)}


def test_an_invalid_filter_is_rejected_and_the_others_take_effect(root: RawClient) -> None:
    create(root, entry(), entry(Op.WRITE))
    bad = [EVERYTHING._replace(resource_type=99), EVERYTHING._replace(operation=99)]
    assert delete(root, exactly(entry()), *bad) == [{entry()}, E.INVALID_REQUEST, E.INVALID_REQUEST]
    assert describe(root) == {entry(Op.WRITE)}


def test_too_many_changes_at_once_change_nothing(root: RawClient) -> None:
    many = [entry(name=f"t{number}") for number in range(RECORDS_PER_OPERATION_MAX + 1)]
    assert {code for code, _ in create(root, *many)} == {E.POLICY_VIOLATION}
    assert describe(root) == set()
    assert create(root, *many[1:]) == [OK] * RECORDS_PER_OPERATION_MAX
    assert create(root, many[0]) == [OK]
    assert delete(root, EVERYTHING) == [E.POLICY_VIOLATION]
    assert len(describe(root)) == len(many)
    assert delete(root, EVERYTHING._replace(resource_name="t1", pattern_type=PatternType.ANY)) == [{many[1]}]
    assert len(delete(root, EVERYTHING)[0]) == RECORDS_PER_OPERATION_MAX  # type: ignore[arg-type]


def test_row_32_entries_are_for_those_who_may_alter_or_describe_the_cluster(root: RawClient, alice: RawClient) -> None:
    create(root, entry())
    assert [code for code, _ in create(alice, entry(Op.WRITE))] == [E.CLUSTER_AUTHORIZATION_FAILED]
    assert delete(alice, EVERYTHING) == [E.CLUSTER_AUTHORIZATION_FAILED]
    answer = alice.ask(describe_request(), 3)
    assert (answer.error_code, answer.resources) == (E.CLUSTER_AUTHORIZATION_FAILED, [])
    assert describe(root) == {entry()}
    create(root, entry(Op.ALTER, name="kafka-cluster", resource=R.CLUSTER))
    assert create(alice, entry(Op.WRITE)) == [OK]  # to alter allows to describe
    assert entry(Op.WRITE) in describe(alice)


def test_row_35_an_entry_counts_for_connections_that_are_open(
    broker: RunningBroker, root: RawClient, alice: RawClient
) -> None:
    topic = unique()
    create_topic(root, name=topic)
    for _ in range(2):
        assert produce(alice, topic, batch(b"v")).error_code == E.TOPIC_AUTHORIZATION_FAILED
        create(root, entry(Op.WRITE, name=topic))
        assert produce(alice, topic, batch(b"v")).error_code == E.NONE
        assert fetch(alice, topic).error_code == E.TOPIC_AUTHORIZATION_FAILED
        create(root, entry(Op.WRITE, name=topic, permission=Permission.DENY))
        assert produce(alice, topic, batch(b"v")).error_code == E.TOPIC_AUTHORIZATION_FAILED
        delete(root, EVERYTHING)


def test_row_31_a_topic_looks_the_same_whether_it_exists_or_not(root: RawClient, alice: RawClient) -> None:
    existing, missing = unique("x"), unique("y")
    create_topic(root, name=existing)
    described = {}
    for name in (existing, missing):
        (described[name],) = alice.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
        assert described[name].name == name
        described[name].name = ""
    assert described[existing] == described[missing]
    assert described[missing].error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert alice.ask(MetadataRequest(topics=None), 12).topics == []


@pytest.mark.parametrize(
    ("creator", "code"),
    [
        (None, E.TOPIC_AUTHORIZATION_FAILED),
        (entry(Op.CREATE, name="kafka-cluster", resource=R.CLUSTER), E.UNKNOWN_TOPIC_OR_PARTITION),
        (entry(Op.CREATE, name="*"), E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["neither", "cluster", "topic"],
)
def test_row_31_topics_are_created_for_those_who_may_create(
    root: RawClient, alice: RawClient, creator: Acl | None, code: ErrorCode
) -> None:
    create(root, entry(Op.DESCRIBE, name="*"), *([creator] if creator else []))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=unique("auto"))], allow_auto_topic_creation=True)
    assert alice.ask(request, 12).topics[0].error_code == code


@pytest.mark.parametrize(
    ("allowing", "code"),
    [
        (entry(Op.READ, name="*"), E.CLUSTER_AUTHORIZATION_FAILED),
        (entry(Op.IDEMPOTENT_WRITE, name="kafka-cluster", resource=R.CLUSTER), E.NONE),
        (entry(Op.WRITE, name="some"), E.NONE),
        (entry(Op.WRITE, name="some", pattern=PatternType.PREFIXED), E.NONE),
    ],
    ids=str,
)
def test_row_27_idempotent_producers_need_one_topic_that_they_may_write(
    root: RawClient, alice: RawClient, allowing: Acl, code: ErrorCode
) -> None:
    create(root, allowing)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert alice.ask(request, 4).error_code == code


@pytest.mark.parametrize(
    ("allowing", "existing", "missing"),
    [
        (None, E.TOPIC_AUTHORIZATION_FAILED, E.TOPIC_AUTHORIZATION_FAILED),
        (Op.DESCRIBE, E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_TOPIC_OR_PARTITION),
        (Op.DELETE, E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_row_31_a_missing_topic_is_known_to_those_who_may_describe_it(
    root: RawClient, alice: RawClient, allowing: Operation | None, existing: ErrorCode, missing: ErrorCode
) -> None:
    topic = unique()
    create_topic(root, name=topic)
    create(root, *([] if allowing is None else [entry(allowing, name="*")]))
    for name, code in ((topic, existing), (unique(), missing)):
        (answer,) = alice.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6).responses
        assert (answer.name, answer.error_code) == (name, code)


def test_operations_that_a_client_may_perform_are_listed(root: RawClient, alice: RawClient) -> None:
    topic = unique()
    create_topic(root, name=topic)
    create(root, entry(Op.WRITE, name=topic))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], include_topic_authorized_operations=True)
    allowed = alice.ask(request, 12).topics[0].topic_authorized_operations
    assert allowed == 1 << Op.WRITE | 1 << Op.DESCRIBE


def test_a_group_is_found_by_those_who_may_describe_it(root: RawClient, alice: RawClient) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert alice.ask(request, 4).coordinators[0].error_code == E.GROUP_AUTHORIZATION_FAILED
    create(root, entry(Op.READ, name="g", resource=R.GROUP))
    assert alice.ask(request, 4).coordinators[0].error_code != E.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("request_", [CreateAclsRequest, DeleteAclsRequest])
def test_an_element_that_is_zero_closes_the_connection(root: RawClient, alice: RawClient, request_: type) -> None:
    zero = entry()._replace(operation=0)
    with pytest.raises(ConnectionError):
        if request_ is CreateAclsRequest:
            create(alice, zero)
        else:
            alice.ask(delete_request(exactly(zero)), 3)
    assert describe(root) == set()


def test_entries_outlast_a_restart(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, SECURED) as running, client_of(running, ROOT) as root:
        create(root, entry(), entry(Op.WRITE))
        delete(root, exactly(entry()))
    with RunningBroker(tmp_path, SECURED) as running, client_of(running, ROOT) as root:
        assert describe(root) == {entry(Op.WRITE)}
        with client_of(running, "User:alice") as alice:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
            assert alice.ask(request, 12).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
