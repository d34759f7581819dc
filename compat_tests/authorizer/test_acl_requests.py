"""CreateAcls, DescribeAcls and DeleteAcls have the same responses, with each valid and invalid element.

Apache Kafka's broker describes an entry a moment after it is stored: the tests wait until it does.
"""

import itertools

import pytest

from compat_tests.harness.waiting import eventually
from kwire.cluster.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.server.security.acl_requests import EVERYTHING, create, delete, delete_request, describe, entry, exactly
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.short
MANY = 10_001
"""Entries of a request that has too many."""


@pytest.fixture
def client(bootstrap):
    with RawClient(bootstrap) as connected:
        yield connected
        delete(connected, EVERYTHING)
        until_described(connected, set())


def until_described(client, expected, acl_filter=EVERYTHING):
    """Wait until the broker describes exactly these entries."""
    eventually(lambda: describe(client, acl_filter) == expected, f"description of {len(expected)} entries")


ELEMENTS = {
    "resource_type": [*ResourceType, 99, -1],
    "pattern_type": [*PatternType, 99],
    "operation": [*Operation, 99],
    "permission": [*Permission, 99],
    "resource_name": ["t", "", "*", "é", "kafka-cluster"],
    "principal": ["User:a", "User:*", "a", "", "User:", ":a", "User:a:b", "Group:a"],
    "host": ["*", "", "::1", "10.0.0.1", "10.0.0.0/8", "name"],
}
"""Elements of an entry that the broker has to check; the elements 0 close the connection."""
MESSAGES = {
    ("resource_name", ""): "Invalid empty resource name",
    ("resource_type", 99): "Invalid resourceType UNKNOWN",
    ("resource_type", -1): "Invalid resourceType UNKNOWN",
    ("resource_type", 4): "The only valid name for the CLUSTER resource is kafka-cluster",
    ("pattern_type", 99): "Invalid patternType UNKNOWN",
    ("operation", 99): "Invalid operation UNKNOWN",
    ("permission", 99): "Invalid permissionType UNKNOWN",
} | {
    ("principal", name): f"Could not parse principal from `{name}` "
    "(no colon is present separating the principal type from the principal name)"
    for name in ("a", "")
}
INDEFINITE = {("resource_type", 1), ("pattern_type", 1), ("pattern_type", 2), ("operation", 1), ("permission", 1)}
"""Elements that only a filter may have: Apache Kafka fails with UNKNOWN_SERVER_ERROR, kwire with INVALID_REQUEST."""
CASES = [(name, value) for name, values in ELEMENTS.items() for value in values if value != 0]


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
def test_each_element_is_stored_or_rejected(client, name, value):
    given = entry()._replace(**{name: value})
    ((code, message),) = create(client, given)
    if (name, value) in INDEFINITE:
        assert code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST)
        return
    expected = MESSAGES.get((name, value), "")
    assert (code, message) == (ErrorCode.INVALID_REQUEST if expected else ErrorCode.NONE, expected)
    until_described(client, set() if expected else {given})


@pytest.mark.parametrize("name", ["resource_type", "pattern_type", "operation", "permission"])
def test_an_element_of_zero_closes_the_connection(client, bootstrap, name):
    with RawClient(bootstrap) as other, pytest.raises(ConnectionError):
        create(other, entry()._replace(**{name: 0}))
    with RawClient(bootstrap) as other, pytest.raises(ConnectionError):
        other.ask(delete_request(EVERYTHING._replace(**{name: 0})), 3)


def test_each_filter_selects_the_same_entries(client):
    entries = [
        entry(),
        entry(name="*"),
        entry(name="te", pattern=PatternType.PREFIXED),
        entry(name="t", pattern=PatternType.PREFIXED, permission=Permission.DENY),
        entry(Operation.ALL, principal="User:*", host="10.0.0.1"),
        entry(resource=ResourceType.GROUP),
    ]
    assert create(client, *entries) == [(ErrorCode.NONE, "")] * len(entries)
    filters = [
        AclFilter(kind, name, pattern, principal, host, operation, permission)
        for kind, name, pattern, principal, host, operation, permission in itertools.product(
            (ResourceType.ANY, ResourceType.TOPIC, 99),
            (None, "t", "test", "*", ""),
            (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED, 99),
            (None, "User:alice", "User:*"),
            (None, "*"),
            (Operation.ANY, Operation.READ),
            (Permission.ANY, Permission.DENY),
        )
    ]
    until_described(client, set(entries))
    for each in filters:
        assert describe(client, each) == set(filter(each.matches, entries)), each


def test_invalid_filters_are_rejected_one_by_one(client):
    create(client, entry())
    until_described(client, {entry()})
    bad = [EVERYTHING._replace(**{name: 99}) for name in ("resource_type", "pattern_type", "operation", "permission")]
    answer = client.ask(delete_request(*bad, exactly(entry())), 3)
    said = [(each.error_code, each.error_message) for each in answer.filter_results]
    pattern, element = (
        (ErrorCode.INVALID_REQUEST, "Unknown patternFilter."),
        (
            ErrorCode.INVALID_REQUEST,
            "Unknown entryFilter.",
        ),
    )
    assert said == [pattern, pattern, element, element, (ErrorCode.NONE, None)]
    (deleted,) = answer.filter_results[-1].matching_acls
    assert (deleted.error_code, deleted.error_message, deleted.principal) == (ErrorCode.NONE, None, "User:alice")


def test_repeated_entries_and_filters_have_a_result_each(client):
    assert create(client, entry(), entry(), entry()) == [(ErrorCode.NONE, "")] * 3
    assert delete(client, exactly(entry()), EVERYTHING) == [{entry()}, {entry()}]
    assert delete(client, exactly(entry())) == [set()]


def test_too_many_changes_at_once_change_nothing(client):
    many = [entry(name=f"t{number}") for number in range(MANY)]
    assert {code for code, _ in create(client, *many)} == {ErrorCode.POLICY_VIOLATION}
    assert describe(client) == set()


def test_an_empty_request_has_an_empty_response(client):
    assert client.ask(CreateAclsRequest(creations=[]), 3).results == []
    assert client.ask(delete_request(), 3).filter_results == []


def test_old_versions_store_literal_entries_too(client):
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    assert client.ask(CreateAclsRequest(creations=[creation]), 1).results[0].error_code == ErrorCode.NONE
    stored = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
    eventually(lambda: describe(client, version=1) == {stored}, "description of the entry")
