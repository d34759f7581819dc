"""Other people's clients with Kerberos: records over both listeners, user names by rule, and each refusal."""

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.kerberos.clients import CLIENTS, run_module
from compat_tests.kerberos.conftest import LISTENERS, OTHER_SERVICE

RAW = "compat_tests.kerberos.raw_login"
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
REFUSED = {"code": 58, "message": GENERIC, "is_super_user": False}
NAMES = [pytest.param(name, marks=[] if name == "java" else pytest.mark.short) for name in CLIENTS]
VALUES = [b"first", b"second"]
NO_TICKET = {
    "kcat": "No Kerberos credentials available",
    "java": "Unable to obtain Principal Name for authentication",
    "kafka-python": "No Kerberos credentials available",
    "aiokafka": "No Kerberos credentials available",
}
EXPIRED = NO_TICKET | {
    "kcat": "Ticket expired",
    "kafka-python": "Ticket expired",
    "aiokafka": "Ticket expired",
}
NO_LOGIN = {
    "kcat": "SASL authentication error",
    "java": "SaslAuthenticationException",
    "kafka-python": "due to invalid credentials",
    "aiokafka": "due to invalid credentials",
}
DENIED = {
    "kcat": "authorization failed",
    "java": "Could not match any topic-partitions",
    "kafka-python": "TopicAuthorizationFailedError",
    "aiokafka": "TopicAuthorizationFailedError",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("listener", LISTENERS)
def test_records_pass(served, new_topic, name, listener, tmp_path):
    ended = CLIENTS[name](served.login_of("alice", listener), new_topic, VALUES, tmp_path)
    assert (list(ended.values), ended.error) == (VALUES, "")


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_gives_the_user_its_name(served, new_topic, name, tmp_path):
    ended = CLIENTS[name](served.login_of("ADMIN/laptop"), new_topic, VALUES, tmp_path)
    assert (list(ended.values), ended.error) == (VALUES, "")
    assert DENIED[name] in CLIENTS[name](served.login_of("bob"), new_topic, VALUES, tmp_path).error


@pytest.mark.parametrize("name", NAMES)
def test_a_principal_without_a_rule_is_refused(served, new_topic, name, tmp_path):
    """Apache Kafka lets it log in, and then closes the connection without an error code."""
    error = CLIENTS[name](served.login_of("carol/laptop"), new_topic, VALUES, tmp_path).error
    assert error
    assert served.name == "kafka" or NO_LOGIN[name] in error


@pytest.mark.parametrize("name", NAMES)
def test_without_a_ticket(served, new_topic, name, tmp_path):
    login = served.login_of("alice", tickets=tmp_path / "missing")
    assert NO_TICKET[name] in CLIENTS[name](login, new_topic, VALUES, tmp_path).error


@pytest.mark.parametrize("name", NAMES)
def test_an_expired_ticket(served, new_topic, name, tmp_path):
    tickets = served.kdc.tickets("alice", seconds=1)
    eventually(lambda: served.kdc.has_expired(tickets, 1), "the end of the ticket")
    login = served.login_of("alice", tickets=tickets)
    assert EXPIRED[name] in CLIENTS[name](login, new_topic, VALUES, tmp_path).error


@pytest.mark.parametrize("name", NAMES)
def test_a_ticket_for_another_service(served, new_topic, name, tmp_path):
    login = served.login_of("alice", service=OTHER_SERVICE)
    assert NO_LOGIN[name] in CLIENTS[name](login, new_topic, VALUES, tmp_path).error


@pytest.mark.short
@pytest.mark.parametrize("case", ["right", "bare"])
def test_a_login_by_hand(served, case):
    login = served.login_of("alice")
    answer = run_module(RAW, login, login.address, case)
    assert (answer["code"], answer["is_super_user"]) == (0, True)


@pytest.mark.short
def test_a_token_that_arrives_after_its_ticket_has_expired(served):
    login = served.login_of("alice", seconds=2)
    assert run_module(RAW, login, login.address, "late") == REFUSED


@pytest.mark.short
def test_a_security_layer_that_was_not_offered(served):
    login = served.login_of("alice")
    assert run_module(RAW, login, login.address, "layer") == REFUSED


@pytest.mark.short
def test_the_authorization_id_of_another_user(served):
    """Apache Kafka ignores it: the user is bob."""
    login = served.login_of("bob")
    answer = run_module(RAW, login, login.address, "other-user")
    assert answer["code"] == (58 if served.name == "kwire" else 0)
    assert not answer["is_super_user"]
