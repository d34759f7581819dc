"""kafka-delegation-tokens, and Kafka's clients that log in with the tokens, on kwire and on Apache Kafka."""

import re
from contextlib import ExitStack

import pytest

from compat_tests.harness.brokers import new_broker
from compat_tests.harness.ports import HOST, free_ports
from compat_tests.kafka_tools.comparing import Both, Side

MODULES = "org.apache.kafka.common.security"
USERS = 'user_alice="alice-secret" user_bob="bob-secret"'
TOKEN = re.compile(r"^([\w-]{22})\s+([A-Za-z0-9+/]{86}==)\s+User:alice", re.MULTILINE)
NAMES = (
    (re.compile(r"[A-Za-z0-9+/]{86}=="), "HMAC"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), "MINUTE"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "ID"),
)


@pytest.fixture(scope="module")
def secured(request, archive, tmp_path_factory):
    """Yield both brokers, each with a listener that has SASL; the tools use that one."""
    names = dict.fromkeys((request.config.getoption("--broker"), "kafka"))
    with ExitStack() as stack:
        sides = [secured_side(name, archive, tmp_path_factory.mktemp(name), stack) for name in names]
        yield Both(sides[0], sides[1] if len(sides) > 1 else None)


def secured_side(name, archive, directory, stack):
    broker = new_broker(name, directory)
    port, controller_port = free_ports(2)
    listeners = f"PLAINTEXT://{broker.bootstrap},SASL_PLAINTEXT://{HOST}:{port}"
    broker.more_settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {USERS};",
        **{
            f"listener.name.sasl_plaintext.{mechanism}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
            for mechanism in ("scram-sha-256", "scram-sha-512")
        },
        "delegation.token.secret.key": "secret-of-the-cluster",
    }
    if name == "kafka":
        controller = f"{HOST}:{controller_port}"
        broker.more_settings["listeners"] += f",CONTROLLER://{controller}"
        broker.more_settings["controller.quorum.bootstrap.servers"] = controller
    stack.callback(broker.stop)
    broker.start()
    side = Side(broker, archive)
    side.tools.bootstrap = f"{HOST}:{port}"
    return side


@pytest.fixture
def settings_file(tmp_path):
    """Return a function that writes the settings of a client, and returns the file's name."""

    def write(mechanism, module, user, password, extension=""):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.properties"
        jaas = f'{MODULES}.{module} required username="{user}" password="{password}"{extension};'
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
            "request.timeout.ms=10000\n"
        )
        return str(path)

    return write


def test_a_token_from_its_creation_to_its_removal(secured, settings_file, topic):
    stories = [story_of(side, settings_file, topic) for side in secured.sides]
    for line, (own, kafkas) in enumerate(zip(stories[0], stories[-1], strict=True)):
        assert own == kafkas, f"step {line}"


def story_of(side, settings_file, topic):
    """Return the status and output of each step."""
    alice = settings_file("PLAIN", "plain.PlainLoginModule", "alice", "alice-secret")
    bob = settings_file("PLAIN", "plain.PlainLoginModule", "bob", "bob-secret")
    told = []

    def run(tool, client, *arguments, status=0):
        ran = side.tools.run(tool, *arguments, "--command-config", client)
        assert ran.status == status, (side.name, arguments, ran.said)
        text = ran.output + ran.errors
        for pattern, name in NAMES:
            text = pattern.sub(name, text)
        told.append((ran.status, re.sub(r"[ \t]+", " ", text)))
        return ran

    def tokens(client, *arguments, status=0):
        return run("kafka-delegation-tokens", client, *arguments, status=status)

    created = tokens(alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, hmac = TOKEN.search(created.output).groups()
    tokens(alice, "--describe")
    tokens(alice, "--describe", "--owner-principal", "User:alice")
    tokens(bob, "--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    tokens(alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "Group:g", status=1)

    def with_token(mechanism, password):
        return settings_file(mechanism, "scram.ScramLoginModule", token_id, password, ' tokenauth="true"')

    own, wrong = with_token("SCRAM-SHA-512", hmac), with_token("SCRAM-SHA-512", hmac[::-1])
    run("kafka-topics", own, "--create", "--topic", topic)
    run("kafka-topics", with_token("SCRAM-SHA-256", hmac), "--describe", "--topic", topic)
    run("kafka-topics", wrong, "--list", status=1)
    for arguments in (("--create", "--max-life-time-period", "-1"), ("--describe",)):
        tokens(own, *arguments, status=1)
    tokens(bob, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    tokens(bob, "--renew", "--renew-time-period", "-1", "--hmac", hmac, status=1)
    run("kafka-topics", own, "--list", status=1)
    return told
