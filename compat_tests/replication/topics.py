"""Replicas of a topic, as brokers describe them."""

from compat_tests.confluent_kafka_client import client as confluent


def in_sync(node, topic):
    """Return the number of in-sync replicas of each partition, from this node's metadata."""
    found = confluent.admin(node.bootstrap).list_topics(topic, timeout=10).topics[topic]
    return [len(found.partitions[each].isrs) for each in sorted(found.partitions)]
