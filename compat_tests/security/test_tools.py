"""Apache Kafka's tools with --command-config: access control entries and users of SCRAM, over SASL_SSL."""

import pytest

from compat_tests.harness.waiting import eventually
from compat_tests.kafka_tools.tools import ToolBox
from compat_tests.security.clients import CLIENTS, command_config
from compat_tests.security.secured import SASL_SSL

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
