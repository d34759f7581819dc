"""Clients of a cluster during restarts of brokers: they wait for new leaders and use the other brokers meanwhile."""

import signal

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.cluster.drivers import DRIVERS, Java
from compat_tests.cluster.placing import create_spread, group_coordinated_by, leaders, transactional_id_coordinated_by
from compat_tests.confluent_kafka_client import transactional as confluent
from compat_tests.harness.transactions import alternating, count, expected
from compat_tests.transactions.java_clients import running_clients

pytestmark = pytest.mark.restart
PLACES = 2


@pytest.fixture(scope="module")
def cluster(alive, tested, tmp_path_factory):
    """Start the tested cluster alone: a controller, and brokers 2 and 3."""
    [only] = alive.start([tested], "separate", tmp_path_factory.mktemp)
    return only


@pytest.fixture
def spread(cluster, topic):
    """Create a topic with partition 0 on broker 2 and partition 1 on broker 3."""
    create_spread(cluster, topic)
    return topic


@pytest.fixture(scope="session")
def java():
    with running_clients() as clients:
        yield clients


@pytest.fixture(params=[*DRIVERS, Java.name])
def driver(request):
    if request.param == Java.name:
        return Java(request.getfixturevalue("java"))
    return DRIVERS[request.param]()


def numbers(first, last):
    return [b"%d" % number for number in range(first, last)]


def away(cluster, node_id, number):
    """Stop or kill a broker, and wait until all other brokers have noticed."""
    cluster[node_id].end(number)
    cluster.await_brokers(without={node_id})


def back(cluster, node_id):
    cluster[node_id].start()
    cluster.await_brokers()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_clients_follow_a_leader_that_stops_and_restarts(cluster, spread, group, driver, number):
    coordinated = group_coordinated_by(cluster, 3, group)
    with driver.producer(cluster.bootstrap) as hand_over, driver.member(cluster.bootstrap, spread, coordinated) as read:
        for partition in range(PLACES):
            assert hand_over(spread, partition, numbers(0, 50))() == list(range(50))
        seen = read(100)
        away(cluster, 3, number)
        assert leaders(cluster[2].bootstrap, spread) == {0: 2, 1: -1}
        later = hand_over(spread, 1, numbers(50, 100))
        assert hand_over(spread, 0, numbers(50, 100))() == list(range(50, 100))
        back(cluster, 3)
        assert later() == list(range(50, 100))
        assert leaders(cluster[2].bootstrap, spread) == {0: 2, 1: 3}
        seen += read(100)
    for partition in range(PLACES):
        assert [value for index, value in seen if index == partition] == numbers(0, 100)
    with Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": coordinated}) as client:
        committed = client.committed(places(spread), timeout=20)
    assert [each.offset for each in committed] == [100, 100]


def places(topic):
    return [TopicPartition(topic, partition) for partition in range(PLACES)]


def test_transactions_over_brokers(cluster, spread, unique, java):
    """The coordinator is on one broker and writes markers on both, so it must send them over the network."""
    both = [(spread, partition) for partition in range(PLACES)]
    for coordinator in (2, 3):
        plan = alternating(both, 9)
        client = confluent.transactional(
            cluster.bootstrap, transactional_id_coordinated_by(cluster, coordinator, unique("id"))
        )
        for transaction in plan:
            confluent.run(client, transaction)
        name = java.producer(
            cluster.bootstrap,
            unique("p"),
            transactional_id=transactional_id_coordinated_by(cluster, coordinator, unique("java")),
        )
        for transaction in plan:
            java.tell("begin", name)
            for (topic, partition), value in transaction.records:
                java.send(name, topic, [value.decode()], partition)
            java.tell("commit" if transaction.commits else "abort", name)
        java.tell("close", name)
    wanted = {place: 4 * values for place, values in expected(plan).items()}
    assert confluent.read_places(cluster.bootstrap, both, count(wanted)) == wanted
    assert java.read_places(cluster.bootstrap, unique("c"), both, count(wanted)) == wanted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_an_open_transaction_outlives_its_coordinator(cluster, spread, unique, number):
    client = confluent.transactional(cluster.bootstrap, transactional_id_coordinated_by(cluster, 3, unique("id")))
    client.begin_transaction()
    for partition in range(PLACES):
        client.produce(spread, b"before", partition=partition)
    assert client.flush(30) == 0
    away(cluster, 3, number)
    back(cluster, 3)
    for partition in range(PLACES):
        client.produce(spread, b"after", partition=partition)
    confluent.until_answered(client.commit_transaction)
    both = [(spread, partition) for partition in range(PLACES)]
    assert confluent.read_places(cluster.bootstrap, both, 4) == {place: [b"before", b"after"] for place in both}


def test_offsets_in_a_transaction_whose_group_is_elsewhere(cluster, spread, unique, java):
    """The group's coordinator and the transaction's coordinator are on different brokers; records come from both."""
    target = unique("target")
    create_spread(cluster, target)
    source = java.producer(cluster.bootstrap, unique("source"))
    for partition in range(PLACES):
        java.send(source, spread, [f"{number}" for number in range(20)], partition)
    reader = java.consumer(
        cluster.bootstrap, unique("c"), topics=[spread], group_id=group_coordinated_by(cluster, 2, unique("group"))
    )
    mover = java.producer(
        cluster.bootstrap, unique("p"), transactional_id=transactional_id_coordinated_by(cluster, 3, unique("id"))
    )
    moved = 0
    while moved < 40:
        moved += java.tell("move", mover, **{"from": reader, "topic": target, "commits": True})
    assert sorted(java.tell("committed", reader)) == [[spread, 0, 20], [spread, 1, 20]]
    for name in (source, reader, mover):
        java.tell("close", name)
