"""A broker of one kind with a controller of the other: it registers, serves, applies metadata changes and leaves."""

import re
import signal

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from compat_tests.cluster.clusters import Cluster
from compat_tests.cluster.placing import (
    create_spread,
    group_coordinated_by,
    leaders,
    transactional_id_coordinated_by,
)
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.confluent_kafka_client import transactional as confluent
from compat_tests.harness.payloads import numbered
from compat_tests.harness.transactions import alternating, count, expected
from compat_tests.harness.waiting import eventually

ROLES = ("controller", "broker", "broker")
COMPLAINT = re.compile(r"\bERROR\b(?!.* state\.change\.logger)|Traceback|UNSUPPORTED_VERSION|UnsupportedVersion")
"""Log lines about requests that the other kind cannot answer. Kafka's state change log is excluded: it can report a new
partition as missing in a cluster of Kafka only, too.
"""


@pytest.fixture(scope="module", params=["broker", "controller"])
def mixed(request, tested, alive, tmp_path_factory):
    """Start a tested broker with Apache Kafka's controller, or Kafka's broker with the tested controller."""
    alive.end()
    kinds = ("kafka", "kafka", tested) if request.param == "broker" else (tested, tested, "kafka")
    cluster = Cluster(kinds, tmp_path_factory.mktemp("mixed"), ROLES)
    try:
        cluster.start()
        yield cluster
        for node in cluster.nodes:
            assert [line for line in node.output().splitlines() if COMPLAINT.search(line)] == []
    finally:
        cluster.end()


@pytest.fixture
def spread(mixed, topic):
    create_spread(mixed, topic)
    return topic


def places(topic):
    return [(topic, 0), (topic, 1)]


def test_both_brokers_serve_their_partitions(mixed, spread):
    for node in mixed.brokers:
        client = confluent_client.producer(node.bootstrap)
        for partition in (0, 1):
            confluent_client.send_all(client, spread, numbered(20), partition)
    for node in mixed.brokers:
        for partition in (0, 1):
            with Consumer({"bootstrap.servers": node.bootstrap, "group.id": "unused"}) as client:
                client.assign([TopicPartition(spread, partition, 0)])
                values = [each.value() for each in confluent_client.read(client, 40)]
            assert values == 2 * [each.value for each in numbered(20)]


def test_config_changes_through_either_broker_reach_both(mixed, spread):
    for number, node in enumerate(mixed.brokers):
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        requested = ConfigResource(ResourceType.TOPIC, spread, incremental_configs=[])
        requested.add_incremental_config(
            ConfigEntry("retention.ms", str(10_000 + number), incremental_operation=AlterConfigOpType.SET)
        )
        confluent_client.result(admin.incremental_alter_configs([requested]))
        for other in mixed.brokers:
            eventually(lambda other=other: _retention(other, spread) == str(10_000 + number), "the value is known")  # noqa: B023
        confluent_client.result(admin.create_partitions([NewPartitions(spread, 3 + number)]))
        for other in mixed.brokers:
            eventually(lambda other=other: len(leaders(other.bootstrap, spread)) == 3 + number, "the partition")  # noqa: B023
    confluent_client.result(admin.delete_topics([spread]))


def _retention(node, topic):
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    return confluent_client.result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[
        "retention.ms"
    ].value


@pytest.mark.parametrize("coordinator", [2, 3])
def test_groups_and_transactions_work_with_either_coordinator(mixed, spread, unique, coordinator):
    plan = alternating(places(spread), 6)
    client = confluent.transactional(mixed.bootstrap, transactional_id_coordinated_by(mixed, coordinator, unique("id")))
    for transaction in plan:
        confluent.run(client, transaction)
    wanted = expected(plan)
    assert confluent.read_places(mixed.bootstrap, places(spread), count(wanted)) == wanted
    group = group_coordinated_by(mixed, coordinator, unique("group"))
    with confluent_client.consumer(mixed.bootstrap, group_id=group, isolation_level="read_committed") as member:
        member.subscribe([spread])
        assert len(confluent_client.read(member, count(wanted), seconds=60)) == count(wanted)
        member.commit(asynchronous=False)
    with confluent_client.consumer(mixed.bootstrap, group_id=group) as member:
        found = member.committed([TopicPartition(*place) for place in places(spread)], timeout=20)
    assert all(each.offset > 0 for each in found)


@pytest.mark.parametrize(("goes", "number"), [(2, signal.SIGTERM), (3, signal.SIGKILL)], ids=["stopped", "killed"])
def test_either_broker_stops_and_restarts(mixed, spread, goes, number):
    client = confluent_client.producer(mixed.bootstrap, enable_idempotence=True)
    for partition in (0, 1):
        confluent_client.send_all(client, spread, numbered(10), partition)
    mixed[goes].end(number)
    mixed.await_brokers(without={goes})
    stays = 5 - goes
    assert leaders(mixed[stays].bootstrap, spread) == {goes - 2: -1, stays - 2: stays}
    mixed[goes].start()
    mixed.await_brokers()
    for partition in (0, 1):
        offsets = confluent_client.offsets_of(confluent_client.send_all(client, spread, numbered(10), partition))
        assert offsets == list(range(10, 20))
