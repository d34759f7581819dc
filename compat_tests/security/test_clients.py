"""Other people's clients: records with every protocol and mechanism, and the error of each refusal."""

import pytest

from compat_tests.security import oauthbearer
from compat_tests.security.clients import CLIENTS, kcat_gets_tokens, kcat_repeats_its_nonce
from compat_tests.security.secured import (
    CERTIFIED,
    EXPIRED,
    MECHANISMS,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SCRAM,
    SSL,
    USERS,
)

WAYS = [
    (PLAINTEXT, None),
    (SSL, None),
    (CERTIFIED, None),
    *((listener, mechanism) for listener in (SASL_PLAINTEXT, SASL_SSL) for mechanism in MECHANISMS),
]
SHORT = ("kafka-python", "confluent-kafka", "aiokafka", "kcat")
"""Clients that need no JVM, compiler or package manager."""


def among(names):
    return [pytest.param(name, marks=pytest.mark.short if name in SHORT else []) for name in names]


NAMES = among(CLIENTS)
NO_LOGIN, NO_TRUST, NO_CERTIFICATE = "no login", "no trust", "no certificate"
ERRORS = {
    # kafka-python repeats the login until its timeout.
    "kafka-python": {
        NO_LOGIN: "KafkaTimeoutError",
        NO_TRUST: "KafkaConnectionError: Handshake failed: [SSL: CERTIFICATE_VERIFY_FAILED]",
        NO_CERTIFICATE: "KafkaConnectionError: [SSL: ",
    },
    # librdkafka's first error is _SSL or _TRANSPORT, with the same text.
    "confluent-kafka": {
        NO_LOGIN: "_AUTHENTICATION: ",
        NO_TRUST: "SSL routines::certificate verify failed",
        NO_CERTIFICATE: "_TRANSPORT: ",
    },
    "aiokafka": {
        NO_LOGIN: "[Error 58] SaslAuthenticationFailed",
        NO_TRUST: "[SSL: CERTIFICATE_VERIFY_FAILED]",
        NO_CERTIFICATE: "KafkaConnectionError",
    },
    "kcat": {
        NO_LOGIN: "SASL authentication error: Authentication failed",
        NO_TRUST: "certificate verify failed",
        NO_CERTIFICATE: "SSL alert number",
    },
    "java": {
        NO_LOGIN: "SaslAuthenticationException: Authentication failed",
        NO_TRUST: "SslAuthenticationException: SSL handshake failed",
        NO_CERTIFICATE: "SslAuthenticationException: Failed to process post-handshake messages",
    },
    "franz-go": {
        NO_LOGIN: "SASL_AUTHENTICATION_FAILED",
        NO_TRUST: "x509: ",
        NO_CERTIFICATE: "remote error: tls: ",
    },
    # kafkajs repeats what it takes for a broken connection.
    "kafkajs": {
        NO_LOGIN: "KafkaJSSASLAuthenticationError",
        NO_TRUST: "Connection error: ",
        NO_CERTIFICATE: "SSL alert number",
    },
}
"""Part of each client's error."""
DENIED = {"kafka-python": "TopicAuthorizationFailedError", "aiokafka": "TopicAuthorizationFailedError"}
DENIED |= {"confluent-kafka": "TOPIC_AUTHORIZATION_FAILED", "kcat": "Topic authorization failed"}
DENIED |= {"franz-go": "TOPIC_AUTHORIZATION_FAILED", "kafkajs": "Not authorized to access topics"}
UNREAD_REASON = {
    "aiokafka": {"kwire": "KafkaConnectionError", "kafka": "No broker metadata found"},
    "kafkajs": {"kwire": "Closed connection", "kafka": "Request is not valid given the current SASL state"},
}
"""Errors of clients that do not read why a token is refused, and go on with a request, which kwire does not answer."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_records_pass_each_way(secured, new_topic, name, listener, mechanism, tmp_path):
    values = [f"{number} of {listener}".encode() for number in range(3)]
    login = secured.login(listener, mechanism)
    if listener == CERTIFIED:
        secured.allow("carol", new_topic)
    if name == "kcat" and mechanism in SCRAM and kcat_repeats_its_nonce():
        assert ERRORS[name][NO_LOGIN] in CLIENTS[name].refusal(login, new_topic, tmp_path)
    elif name == "kcat" and mechanism == oauthbearer.MECHANISM and not kcat_gets_tokens():
        assert "not supported in this build" in CLIENTS[name].refusal(login, new_topic, tmp_path)
    else:
        assert CLIENTS[name].round_trip(login, new_topic, values, tmp_path) == values


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("listener", "mechanism", "changed"),
    [
        (SASL_PLAINTEXT, "PLAIN", {"password": "wrong"}),
        (SASL_SSL, "SCRAM-SHA-512", {"password": "wrong"}),
        (SASL_SSL, "SCRAM-SHA-256", {"user": "unknown"}),
    ],
    ids=["wrong password of PLAIN", "wrong password of SCRAM", "unknown user"],
)
def test_a_login_is_refused(secured, new_topic, name, listener, mechanism, changed, tmp_path):
    login = secured.login(listener, mechanism, **changed)
    assert ERRORS[name][NO_LOGIN] in CLIENTS[name].refusal(login, new_topic, tmp_path)


@pytest.mark.parametrize("name", among(["kafka-python", "confluent-kafka", "aiokafka", "franz-go", "kafkajs"]))
def test_a_token_with_another_key_is_refused(secured, new_topic, name, tmp_path):
    login = secured.login(SASL_SSL, oauthbearer.MECHANISM, provider=oauthbearer.Provider(0))
    refusal = CLIENTS[name].refusal(login, new_topic, tmp_path)
    expected = ERRORS[name][NO_LOGIN] if name not in UNREAD_REASON else UNREAD_REASON[name][secured.name]
    assert expected in refusal


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("listener", [SSL, SASL_SSL, EXPIRED])
def test_a_client_refuses_the_certificate_of_the_broker(secured, new_topic, name, listener, tmp_path):
    changed = {} if listener == EXPIRED else {"authority": secured.files.other_authority}
    login = secured.login(listener, "PLAIN" if listener == SASL_SSL else None, **changed)
    assert ERRORS[name][NO_TRUST] in CLIENTS[name].refusal(login, new_topic, tmp_path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("has_identity", [False, True], ids=["no certificate", "another authority"])
def test_the_broker_refuses_the_certificate_of_a_client(secured, new_topic, name, has_identity, tmp_path):
    login = secured.login(CERTIFIED, identity=secured.files.stranger if has_identity else None)
    assert ERRORS[name][NO_CERTIFICATE] in CLIENTS[name].refusal(login, new_topic, tmp_path)


@pytest.mark.parametrize("name", among(DENIED))
@pytest.mark.parametrize("listener", [SASL_SSL, CERTIFIED])
def test_a_user_needs_an_entry(secured, new_topic, name, listener, tmp_path):
    """On the listener CERTIFIED the user is carol: ssl.principal.mapping.rules maps CN=Carol,O=Example."""
    user, mechanism = ("alice", "PLAIN") if listener == SASL_SSL else ("carol", None)
    changed = {} if mechanism is None else {"user": user, "password": USERS[user]}
    login = secured.login(listener, mechanism, **changed)
    assert DENIED[name] in CLIENTS[name].refusal(login, new_topic, tmp_path)
    secured.allow(user, new_topic)
    assert CLIENTS[name].round_trip(login, new_topic, [b"allowed"], tmp_path) == [b"allowed"]
