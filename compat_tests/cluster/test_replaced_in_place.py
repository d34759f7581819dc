"""Each node of an Apache Kafka cluster is replaced by a tested node on its directories, and then by Kafka again."""

import signal

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.cluster.placing import create_spread, leaders
from compat_tests.confluent_kafka_client.client import offsets_of, producer, read_from, send_all
from compat_tests.harness.payloads import numbered

BATCH = 10


def test_a_kafka_cluster_is_replaced_node_by_node_and_back(tested, alive, tmp_path, topic):
    alive.end()
    cluster = Cluster("kafka", tmp_path, SHAPES["combined"])
    try:
        cluster.start()
        create_spread(cluster, topic)
        client = producer(cluster.bootstrap, enable_idempotence=True)
        sent = 0
        for kind in (tested, "kafka"):
            for node in cluster.nodes:
                for partition in range(3):
                    offsets = offsets_of(send_all(client, topic, numbered(BATCH), partition))
                    assert offsets == list(range(sent, sent + BATCH))
                sent += BATCH
                replace(cluster, node, kind)
                assert leaders(node.bootstrap, topic) == {0: 1, 1: 2, 2: 3}
        for partition in range(3):
            values = [each.value() for each in read_from(cluster.bootstrap, topic, sent, partition)]
            assert values == 6 * [each.value for each in numbered(BATCH)]
    finally:
        cluster.end()


def replace(cluster, node, kind):
    node.end(signal.SIGTERM)
    cluster.await_brokers(without={node.node_id})
    node.kind = kind
    node.start()
    cluster.await_brokers()
