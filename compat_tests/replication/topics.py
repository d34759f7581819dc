"""What brokers tell of a topic's replicas."""

from compat_tests.confluent_kafka_client import client as confluent


def in_sync(node, topic):
    """How many replicas of each partition are in sync, as this node tells it."""
    found = confluent.admin(node.bootstrap).list_topics(topic, timeout=10).topics[topic]
    return [len(found.partitions[each].isrs) for each in sorted(found.partitions)]
