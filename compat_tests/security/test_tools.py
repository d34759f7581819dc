"""Apache Kafka's tools with --command-config: entries, users of SCRAM and delegation tokens, over SASL_SSL."""

from dataclasses import replace

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.tools import ToolBox
from compat_tests.security.clients import CLIENTS, command_config
from compat_tests.security.secured import SASL_SSL, SCRAM, USERS
from compat_tests.security.test_clients import ERRORS, NO_LOGIN
from compat_tests.security.tokens import Tokens

MECHANISM = "SCRAM-SHA-512"
USER_DESCRIBED = "SCRAM credential configs for user-principal '{}' are SCRAM-SHA-512=iterations=8192"


@pytest.fixture
def run(secured, tmp_path):
    """Return a function that runs a tool as admin and returns its output."""
    tools = ToolBox(secured.addresses[SASL_SSL], None)
    config = command_config(secured.login(SASL_SSL, MECHANISM), tmp_path)

    def run_tool(tool, *arguments):
        ran = tools.run(tool, "--command-config", config, *arguments)
        assert ran.status == 0, ran.said
        return ran.output

    return run_tool


def test_kafka_acls_adds_lists_and_removes(secured, run, new_topic):
    entry = ("--allow-principal", "User:dora", "--operation", "Read", "--topic", new_topic)
    shown = "(principal=User:dora, host=*, operation=READ, permissionType=ALLOW)"
    run("kafka-acls", "--add", *entry)
    eventually(lambda: shown in run("kafka-acls", "--list", "--topic", new_topic), "the entry")
    run("kafka-acls", "--remove", "--force", *entry)
    eventually(lambda: shown not in run("kafka-acls", "--list", "--topic", new_topic), "no entry")


def test_kafka_configs_adds_describes_and_deletes_a_user(secured, run, unique, new_topic, tmp_path):
    user = unique("dora")
    users = ("--entity-type", "users", "--entity-name", user)
    run("kafka-configs", "--alter", *users, "--add-config", f"{MECHANISM}=[iterations=8192,password=dora-secret]")
    described = USER_DESCRIBED.format(user)
    eventually(lambda: described in run("kafka-configs", "--describe", *users), "the user")
    login = secured.login(SASL_SSL, MECHANISM, user=user, password="dora-secret")
    secured.allow(user, new_topic)
    client = CLIENTS["confluent-kafka"]
    assert client.round_trip(login, new_topic, [b"dora"], tmp_path) == [b"dora"]
    run("kafka-configs", "--alter", *users, "--delete-config", MECHANISM)
    eventually(lambda: "_AUTHENTICATION" in client.refusal(login, new_topic, tmp_path), "a refused login")


def alice_of(secured):
    return secured.login(SASL_SSL, MECHANISM, user="alice", password=USERS["alice"])


@pytest.mark.parametrize("name", ["java", "franz-go"])
def test_a_client_logs_in_with_a_token_until_it_is_removed(secured, new_topic, name, tmp_path):
    """A client with a token has the rights of its owner; the other clients cannot log in with a token."""
    secured.allow("alice", new_topic)
    client, tokens = CLIENTS[name], Tokens(alice_of(secured), tmp_path)
    token = tokens.create()

    def is_served(login):
        return set(client.round_trip(login, new_topic, [b"by token"], tmp_path)) == {b"by token"}

    for mechanism in SCRAM:
        login = replace(token, mechanism=mechanism)
        eventually(lambda login=login: is_served(login), f"a login by {mechanism}")
    for wrong in ({"is_token": False}, {"password": "wrong"}):
        assert ERRORS[name][NO_LOGIN] in client.refusal(replace(token, **wrong), new_topic, tmp_path)
    tokens.expire(token)
    eventually(lambda: ERRORS[name][NO_LOGIN] in client.refusal(token, new_topic, tmp_path), "a refused login")


def test_owners_and_renewers_handle_a_token(secured, tmp_path):
    alice = Tokens(alice_of(secured), tmp_path)
    admin = Tokens(secured.login(SASL_SSL, MECHANISM), tmp_path)
    token = alice.create("--renewer-principal", "User:admin")
    unshared = alice.create()
    ids = {token.user, unshared.user}
    for tokens in (alice, admin):
        eventually(lambda tokens=tokens: ids <= tokens.ids_of("alice"), "both tokens")
    admin.renew(token)
    refused = admin.try_to("--renew", "--renew-time-period", "3600000", "--hmac", unshared.password)
    assert refused.status == 1
    assert "DelegationTokenOwnerMismatchException" in refused.said
    own = Tokens(token, tmp_path).try_to("--create", "--max-life-time-period", "-1")
    assert own.status == 1
    assert "UnsupportedByAuthenticationException" in own.said
    for each in (token, unshared):
        alice.expire(each)
    eventually(lambda: not ids & alice.ids_of("alice"), "no token")
