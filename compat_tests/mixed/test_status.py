"""`kwire cluster status` shows the same for a cluster of Apache Kafka as for one of kwire."""

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually


@pytest.fixture
def cluster(tested, tmp_path):
    started = Cluster(tested, tmp_path, SHAPES["separate"])
    try:
        started.start()
        yield started
    finally:
        started.end()


def status(cluster):
    """Return (exit status, output)."""
    command = [sys.executable, "-m", "kwire", "cluster", "status", "--format", "json"]
    ended = subprocess.run(
        [*command, "--bootstrap-server", cluster.bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr == ""
    return ended.returncode, json.loads(ended.stdout)


def test_status_reports_a_stopped_broker_until_it_is_back(cluster, topic):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    confluent_client.result(admin.create_topics([NewTopic(topic, 2, 2, config={"min.insync.replicas": "2"})]))
    client = confluent_client.producer(cluster.bootstrap, acks="all")
    for partition in (0, 1):
        confluent_client.send_all(client, topic, numbered(20), partition)
    eventually(lambda: status(cluster)[0] == 0, "healthy")
    _, found = status(cluster)
    assert [(each["broker_id"], each["lag_sum"], each["is_fenced"]) for each in found["brokers"]] == [
        (2, 0, False),
        (3, 0, False),
    ]
    assert [(each["node_id"], each["is_leader"]) for each in found["quorum"]["voters"]] == [(1, True)]
    cluster[3].end()
    cluster.await_brokers(without={3})
    code, found = status(cluster)
    assert code == 1
    assert [each["is_fenced"] for each in found["brokers"]] == [False, True]
    assert found["under_min_isr"] == 2
    mine = [each for each in found["unhealthy_partitions"] if each["topic"] == topic]
    assert [(each["leader"], each["missing"]) for each in mine] == [(2, [3]), (2, [3])]
    cluster[3].start()
    eventually(lambda: status(cluster)[0] == 0, "healthy again", 60)
    confluent_client.result(admin.delete_topics([topic]))
