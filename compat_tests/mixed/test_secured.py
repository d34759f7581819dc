"""Secured clusters of both kinds: replicas, access control entries and delegation tokens over SASL_SSL."""

import signal
from dataclasses import replace

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.mixed.replicas import SECONDS, await_in_sync, partitions, stored, write
from compat_tests.mixed.secured import SecuredCluster
from compat_tests.security.clients import CLIENTS
from compat_tests.security.secured import SCRAM
from compat_tests.security.tokens import Tokens

SEPARATE = ("controller", "broker", "broker", "broker")
COMBINED = ("broker,controller",) * 3
CLIENT = CLIENTS["franz-go"]
DENIED, NO_LOGIN, NO_CERTIFICATE = "TOPIC_AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED", "remote error: tls: "
FIRST_OF_EACH_KIND = (0, 1)
"""Positions of brokers of the two kinds."""


@pytest.fixture(scope="module", params=["kafka", "kwire", "quorum"])
def secured(request, tested, tmp_path_factory):
    """Start a controller of one kind with brokers of both, or three nodes of both kinds that are also the quorum."""
    kinds, roles = {
        "kafka": (("kafka", "kafka", tested, "kafka"), SEPARATE),
        "kwire": ((tested, tested, "kafka", tested), SEPARATE),
        "quorum": ((tested, "kafka", tested), COMBINED),
    }[request.param]
    cluster = SecuredCluster(kinds, tmp_path_factory.mktemp("secured"), roles)
    try:
        cluster.start()
        yield cluster
        assert [node.node_id for node in cluster.nodes if "Traceback" in node.output()] == []
    finally:
        cluster.end()


@pytest.fixture
def replicated(secured, topic):
    """Return a topic with three replicas of each partition, where each broker is the preferred leader of one."""
    ids = [node.node_id for node in secured.brokers]
    create(secured, NewTopic(topic, 3, replica_assignment=[ids[at:] + ids[:at] for at in range(3)]))
    await_in_sync(secured, topic)
    return topic


@pytest.fixture
def led(secured, topic):
    """Return (broker, topic that it leads), for each broker."""
    found = [(node, f"{topic}-{node.node_id}") for node in secured.brokers]
    for node, name in found:
        others = [each.node_id for each in secured.brokers if each is not node]
        create(secured, NewTopic(name, 1, replica_assignment=[[node.node_id, *others]]))
    return found


def create(secured, topic):
    client = secured.admin(secured.brokers[0])
    confluent_client.result(client.create_topics([topic]))


def elect_preferred(secured, topic):
    """Elect the preferred leader of each partition of a replicated topic."""
    wanted = {at: node.node_id for at, node in enumerate(secured.brokers)}
    client = secured.admin(secured.brokers[0])

    def each_leads():
        chosen = [TopicPartition(topic, each) for each in wanted]
        client.elect_leaders(ElectionType.PREFERRED, chosen).result(timeout=10)
        return {at: leader for at, (leader, _) in partitions(secured, topic).items()} == wanted

    eventually(each_leads, "each broker leads a partition", SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("position", FIRST_OF_EACH_KIND)
def test_a_leader_of_either_kind_stops_and_rejoins(secured, replicated, position, number):
    goes = secured.brokers[position]
    write(secured, replicated, 20)
    goes.end(number)
    assert write(secured, replicated, 20) == [list(range(20, 40))] * 3
    await_in_sync(secured, replicated, [node.node_id for node in secured.brokers if node is not goes])
    goes.start()
    secured.await_brokers()
    await_in_sync(secured, replicated)
    elect_preferred(secured, replicated)
    assert write(secured, replicated, 20) == [list(range(40, 60))] * 3
    for partition in range(3):
        assert stored(secured, replicated, partition, 60) == 3 * [each.value for each in numbered(20)]


def entry_of(topic, kind=AclBinding):
    """Return an entry that allows alice everything with topics of this prefix, or the filter that finds it."""
    return kind(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


def refusals(secured, led, directory, **changed):
    """Return how each broker refuses a user a topic that it leads; empty if it serves the user."""
    return [CLIENT.refusal(replace(secured.login(node, "alice"), **changed), name, directory) for node, name in led]


def await_served(secured, led, directory, **changed):
    eventually(lambda: refusals(secured, led, directory, **changed) == [""] * 3, "each broker serves alice", SECONDS)


def await_refused(secured, led, reason, directory, **changed):
    def is_refused() -> bool:
        return all(reason in each for each in refusals(secured, led, directory, **changed))

    eventually(is_refused, f"each broker refuses alice with {reason}", SECONDS)


@pytest.mark.parametrize("position", FIRST_OF_EACH_KIND)
def test_entries_made_through_either_kind_hold_at_all_brokers(secured, topic, led, position, tmp_path):
    await_refused(secured, led, DENIED, tmp_path)
    client = secured.admin(secured.brokers[position])
    confluent_client.result(client.create_acls([entry_of(topic)]))
    await_served(secured, led, tmp_path)
    confluent_client.result(client.delete_acls([entry_of(topic, AclBindingFilter)]))
    await_refused(secured, led, DENIED, tmp_path)


@pytest.mark.parametrize("position", FIRST_OF_EACH_KIND)
def test_a_token_made_through_either_kind_is_a_login_at_all_brokers(secured, topic, led, position, tmp_path):
    login = secured.login(secured.brokers[position], "alice")
    client = secured.admin(secured.brokers[position])
    confluent_client.result(client.create_acls([entry_of(topic)]))
    await_served(secured, led, tmp_path)
    tokens = Tokens(login, tmp_path)
    token = tokens.create("--renewer-principal", "User:alice")
    others = Tokens(secured.login(secured.brokers[1 - position], "alice"), tmp_path)
    for mechanism in SCRAM:
        await_served(secured, led, tmp_path, **changes(token, mechanism))
    eventually(lambda: others.ids_of("alice") == {token.user}, "the token is described", SECONDS)
    others.renew(token)
    others.expire(token)
    for mechanism in SCRAM:
        await_refused(secured, led, NO_LOGIN, tmp_path, **changes(token, mechanism))


def changes(token, mechanism):
    """Return the fields of a login by a token."""
    return {"user": token.user, "password": token.password, "mechanism": mechanism, "is_token": True}


@pytest.mark.parametrize("position", FIRST_OF_EACH_KIND)
def test_a_broker_of_either_kind_requires_a_certificate(secured, topic, position, tmp_path):
    login = secured.login(secured.brokers[position], identity=None)
    assert NO_CERTIFICATE in CLIENT.refusal(login, topic, tmp_path)
