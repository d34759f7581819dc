"""Security and transaction APIs on a broker without authentication and authorizer return Kafka's responses."""

import pytest

from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsUserName,
)
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = pytest.mark.short

SECURITY_DISABLED, NO_TOKENS, ILLEGAL_SASL_STATE, NOT_COORDINATOR, BAD_PATTERN = 54, 64, 34, 16, 128
ANYTHING = {"operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_access_control_entries(peer, version):
    described = peer.ask(DescribeAclsRequest(resource_type_filter=1, **ANYTHING), version)
    assert (described.error_code, described.error_message) == (
        SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    creation = AclCreation(
        resource_type=2, resource_name="t", principal="User:u", host="*", operation=3, permission_type=3
    )
    created = peer.ask(CreateAclsRequest(creations=[creation] * 2), version).results
    deleted = peer.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1, **ANYTHING)]), version)
    for each in (*created, *deleted.filter_results):
        assert (each.error_code, each.error_message) == (SECURITY_DISABLED, "No Authorizer is configured.")
    assert len(created) == 2
    assert peer.ask(CreateAclsRequest(creations=[]), version).results == []


@pytest.mark.parametrize("version", [1, 3])
def test_an_element_of_zero_closes_the_connection(peer, version):
    odd = peer.ask(DescribeAclsRequest(resource_type_filter=99, **ANYTHING), version)
    assert odd.error_code == SECURITY_DISABLED
    peer.send(DescribeAclsRequest(resource_type_filter=0, **ANYTHING), version)
    assert peer.is_closed()


def test_scram_credentials_are_empty(peer):
    for users in (None, []):
        answer = peer.ask(DescribeUserScramCredentialsRequest(users=users), 0)
        assert (answer.error_code, answer.results) == (0, [])
    users = [DescribeUserScramCredentialsUserName(name=name) for name in ("once", "twice", "twice")]
    results = peer.ask(DescribeUserScramCredentialsRequest(users=users), 0).results
    assert {each.user: (each.error_code, each.error_message) for each in results} == {
        "once": (91, "Attempt to describe a user credential that does not exist: once"),
        "twice": (92, "Cannot describe SCRAM credentials for the same user twice in a single request: twice"),
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_delegation_token_apis_are_disabled(peer, version):
    assert peer.ask(DescribeDelegationTokenRequest(owners=None), version).error_code == NO_TOKENS
    created = peer.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert (created.error_code, created.principal_type, created.principal_name) == (NO_TOKENS, "User", "ANONYMOUS")
    assert (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms) == (-1, -1, -1)
    if version == 3:
        request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
        owned = peer.ask(request, version)
        assert (owned.principal_name, owned.token_requester_principal_name) == ("bob", "ANONYMOUS")
        return
    renewed = peer.ask(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version)
    expired = peer.ask(ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), version)
    for each in (renewed, expired):
        assert (each.error_code, each.expiry_timestamp_ms) == (NO_TOKENS, -1)


def test_sasl_apis_return_illegal_sasl_state(peer):
    for version in (0, 1):
        shaken = peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (shaken.error_code, shaken.mechanisms) == (ILLEGAL_SASL_STATE, [])
    for version in (0, 1, 2):
        answer = peer.ask(SaslAuthenticateRequest(auth_bytes=b"x"), version)
        assert answer.error_code == ILLEGAL_SASL_STATE
        assert answer.error_message == "SaslAuthenticate request received after successful authentication"


def test_unknown_transactions_are_described_and_listed_as_by_kafka(peer):
    states = peer.ask(DescribeTransactionsRequest(transactional_ids=["a", "", "b"]), 0).transaction_states
    assert [(each.transactional_id, each.error_code) for each in states] == [("a", 16), ("", 42), ("b", 16)]
    for version in (0, 1, 2):
        answer = peer.ask(ListTransactionsRequest(state_filters=["Ongoing", "Dead", "ongoing", "Nope"]), version)
        assert (answer.error_code, answer.transaction_states) == (0, [])
        assert sorted(answer.unknown_state_filters) == ["Nope", "ongoing"]
    assert peer.ask(ListTransactionsRequest(transactional_id_pattern="(("), 2).error_code == BAD_PATTERN
    assert peer.ask(ListTransactionsRequest(transactional_id_pattern=""), 2).error_code == 0
