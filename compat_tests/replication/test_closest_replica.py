"""A consumer with a rack reads from the replica in that rack, and from the leader while that replica is down."""

import json
import signal

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.confluent_kafka_client import client as confluent
from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually
from compat_tests.replication.failing import leader_of
from compat_tests.replication.topics import in_sync
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic

pytestmark = pytest.mark.restart
SIZE = 10_000
COUNT = 100
SECONDS = 60
STATISTICS_MS = 200


@pytest.fixture
def replicated(cluster, topic):
    with RawClient(cluster[1].bootstrap) as client:
        create_topic(client, name=topic, replicas=3, min_insync_replicas=2)
    for node in cluster.nodes:
        eventually(lambda node=node: in_sync(node, topic) == [3], "the topic is known everywhere", SECONDS)
    return topic


class Reader:
    """librdkafka consumer with a rack, and its statistics of the bytes from each broker."""

    def __init__(self, cluster, topic, rack):
        self._received = {}
        self._topic = topic
        self._client = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "nobody",
                "client.rack": rack,
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": self._told,
                **confluent.BACK_OFF,
            }
        )
        self._client.assign([TopicPartition(topic, 0, 0)])

    def _told(self, text):
        reported = json.loads(text)
        for each in reported["brokers"].values():
            self._received[each["nodeid"]] = each["rxbytes"]

    def read(self, count):
        """Return the values of `count` records."""
        return [each.value() for each in confluent.read(self._client, count, SECONDS)]

    def received(self):
        """Return the bytes that have come from each broker so far."""
        self._received.clear()
        eventually(lambda: self._client.consume(1, 0.1) == [] and self._received, "statistics", SECONDS)
        return dict(self._received)

    def close(self):
        self._client.close()


def write(cluster, topic, turn):
    values = [b"%d-%d " % (turn, number) + b"x" * SIZE for number in range(COUNT)]
    client = confluent.producer(cluster.bootstrap, enable_idempotence=True)
    confluent.offsets_of(confluent.send_all(client, topic, [Record(value=each) for each in values]))
    return values


def test_records_come_from_the_replica_in_the_readers_rack(cluster, replicated):
    leader = leader_of(cluster, replicated).node_id
    near, far = (node.node_id for node in cluster.nodes if node.node_id != leader)
    first = write(cluster, replicated, 1)
    reader = Reader(cluster, replicated, f"rack-{near}")
    try:
        assert reader.read(COUNT) == first
        received = reader.received()
        assert received[near] > COUNT * SIZE
        assert max(received.get(leader, 0), received.get(far, 0)) < COUNT * SIZE / 4

        cluster[near].end(signal.SIGKILL)
        second = write(cluster, replicated, 2)
        assert reader.read(COUNT) == second
        assert reader.received()[leader] > COUNT * SIZE

        cluster[near].start()
        cluster.await_brokers()
        eventually(lambda: in_sync(cluster[leader], replicated) == [3], "all are in sync again", SECONDS)
        third = write(cluster, replicated, 3)
        assert reader.read(COUNT) == third
    finally:
        reader.close()
        if cluster[near].process is None:
            cluster[near].start()
            cluster.await_brokers()
