"""Replicas of a topic with three partitions in a cluster: their state, and what is written to and read from them."""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually

SECONDS = 60


def partitions(cluster, topic):
    """Return a map from partition to (leader, in-sync replicas), from the metadata of any broker."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap} | cluster.client_settings)
    found = client.list_topics(topic, timeout=10).topics[topic]
    return {index: (each.leader, set(each.isrs)) for index, each in found.partitions.items()}


def await_in_sync(cluster, topic, in_sync=None):
    """Wait until these brokers, by default all, are in sync with each partition."""
    wanted = set(in_sync or (node.node_id for node in cluster.brokers))

    def all_are() -> bool:
        found = partitions(cluster, topic)
        return bool(found) and all(isr == wanted for _, isr in found.values())

    eventually(all_are, f"{wanted} are in sync", SECONDS)


def write(cluster, topic, size, **settings):
    """Write records to each partition, and return the offsets of each."""
    client = confluent_client.producer(
        cluster.bootstrap, enable_idempotence=True, **cluster.client_settings, **settings
    )
    return [
        confluent_client.offsets_of(confluent_client.send_all(client, topic, numbered(size), each)) for each in range(3)
    ]


def stored(cluster, topic, partition, size):
    """Return the values of a partition."""
    with confluent_client.consumer(cluster.bootstrap, **cluster.client_settings) as client:
        client.assign([TopicPartition(topic, partition, 0)])
        return [each.value() for each in confluent_client.read(client, size, SECONDS)]
