"""The Compose file of a secured cluster: users log in over TLS, and may do only what an entry allows."""

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from proof.compose import Project
from proof.consuming import consumed_values
from proof.image import docker

from compat_tests.harness.ports import free_ports
from compat_tests.harness.waiting import eventually

SECONDS = 90
BROKERS = ("broker-1", "broker-2", "broker-3")
PASSWORDS = {"admin": "of the administrator", "alice": "of alice", "bob": "of bob"}
IN_NETWORK = ",".join(f"{name}:19092" for name in BROKERS)


class SecuredCluster:
    """Compose project on free ports of the host."""

    def __init__(self, image, project, directory):
        ports = free_ports(3)
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)
        names = {f"KWIRE_PORT_{number + 1}": str(port) for number, port in enumerate(ports)}
        names |= {"KWIRE_NODE_PASSWORD": "of nodes", "KWIRE_ADMIN_PASSWORD": PASSWORDS["admin"]}
        self.call = Project("secured.yaml", project, KWIRE_IMAGE=image, **names)
        self.authority = directory / "ca.pem"

    def container(self, broker):
        return self.call("ps", "--quiet", broker).split()[0]

    def health(self, broker):
        return docker("inspect", "--format", "{{.State.Health.Status}}", self.container(broker))

    def up(self):
        self.call("up", "--detach", "--no-build")
        eventually(lambda: {self.health(name) for name in BROKERS} == {"healthy"}, "all brokers are healthy", SECONDS)
        self.authority.write_text(self.call("exec", "-T", "broker-1", "cat", "/certificates/ca.pem"))

    def settings(self, user, password=None):
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password or PASSWORDS[user],
        }

    def produce(self, user, topic, values, password=None):
        """Produce records; return the names of errors, of records or of the client."""
        errors = set()
        client = Producer(
            self.settings(user, password)
            | {"message.timeout.ms": 20_000, "error_cb": lambda error: errors.add(error.name())}
        )
        for value in values:
            client.produce(topic, value, on_delivery=lambda error, _: errors.add(error.name()) if error else None)
        client.flush(SECONDS)
        return errors

    def consume(self, user, topic, count):
        return consumed_values(self.settings(user), topic, topic, count, SECONDS)


@pytest.fixture(scope="module")
def secured(image, run, tmp_path_factory):
    cluster = SecuredCluster(image, run, tmp_path_factory.mktemp("secured"))
    try:
        cluster.up()
        _add_users(AdminClient(cluster.settings("admin")))
        yield cluster
    finally:
        cluster.call("down", "--volumes", "--timeout", "5")


def _add_users(admin):
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users = [UserScramCredentialUpsertion(name, info, PASSWORDS[name].encode()) for name in ("alice", "bob")]
    for future in admin.alter_user_scram_credentials(users).values():
        future.result(SECONDS)


@pytest.fixture
def owned(secured, topic):
    """Return a topic of alice's, whose name is also that of her group."""
    admin = AdminClient(secured.settings("admin"))
    for future in admin.create_topics([NewTopic(topic, 3, 3)]).values():
        future.result(SECONDS)
    entries = [
        AclBinding(
            kind, topic, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    ]
    for future in admin.create_acls(entries).values():
        future.result(SECONDS)
    return topic


def test_a_user_may_do_what_an_entry_allows_also_after_a_kill(secured, owned):
    values = [b"%d" % number for number in range(300)]
    assert secured.produce("alice", owned, values[:200]) == set()
    docker("kill", "--signal", "KILL", secured.container("broker-2"))
    assert secured.produce("alice", owned, values[200:]) - {"_TRANSPORT", "_ALL_BROKERS_DOWN"} == set()
    assert sorted(secured.consume("alice", owned, 300)) == sorted(values)
    secured.call("start", "broker-2")
    eventually(lambda: secured.health("broker-2") == "healthy", "the broker is back", SECONDS)


def test_a_user_without_an_entry_is_denied(secured, owned):
    assert KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED).name() in secured.produce("bob", owned, [b"value"])


def test_a_wrong_password_is_refused(secured, owned):
    errors = secured.produce("alice", owned, [b"value"], password="another")
    assert "_AUTHENTICATION" in errors
    assert "_MSG_TIMED_OUT" in errors


def test_the_cluster_is_healthy_for_the_administrator(secured):
    command = ("kwire", "cluster", "status", "--bootstrap-server", IN_NETWORK)
    ask = ("exec", "-T", "broker-1", *command, "--command-config", "/tmp/admin.properties")
    eventually(lambda: "healthy" in secured.call(*ask), "the cluster is healthy", SECONDS)


def test_no_key_or_password_can_be_read_by_others(secured):
    listed = secured.call("exec", "-T", "broker-1", "sh", "-c", "ls -ln /certificates /tmp").splitlines()
    modes = {line.split()[-1]: line.split()[0][1:10] for line in listed if line.startswith("-")}
    private = {name: mode for name, mode in modes.items() if name != "ca.pem"}
    assert {"ca.key", "broker-1.pem", "node.properties", "admin.properties"} <= private.keys()
    assert set(private.values()) == {"rw-------"}
