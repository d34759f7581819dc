"""A restarted broker lags, and catches up no faster than the leader or follower replication throttle allows.

Meanwhile `kwire cluster status` reports its lag, which never grows.
"""

import json
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from compat_tests.confluent_kafka_client import client as confluent
from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually
from compat_tests.replication.topics import in_sync

pytestmark = pytest.mark.restart
SIZE = 10_000
COUNT = 600
RATE = 300_000
FREE_BYTES = 4 << 20
"""Bytes that pass at the beginning at most: no fetch is cut, and the rate is an average over ten seconds."""
SECONDS = 90
LAST = 3


@pytest.fixture
def replicated(cluster, topic):
    """Create a topic whose replicas may all be throttled; the last broker leads none of its partitions."""
    admin = confluent.admin(cluster[1].bootstrap)
    confluent.result(admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1, 2, LAST]])]))
    for node in cluster.nodes:
        eventually(lambda node=node: in_sync(node, topic) == [3], "the topic is known everywhere", SECONDS)
    return topic


def alter(cluster, resource, name, value):
    """Set a configuration, or delete it if there is no value."""
    operation = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=operation))
    admin = confluent.admin(cluster[1].bootstrap)
    confluent.result(admin.incremental_alter_configs([resource]))


def throttle(cluster, topic, side, rate):
    """Set the throttle of all brokers on one side, or remove it if there is no rate."""
    alter(cluster, ConfigResource(ResourceType.TOPIC, topic), f"{side}.replication.throttled.replicas", "*")
    for node in cluster.nodes:
        resource = ConfigResource(ResourceType.BROKER, str(node.node_id))
        alter(cluster, resource, f"{side}.replication.throttled.rate", None if rate is None else str(rate))


def lag(cluster):
    """Return the last broker's lag in records, as `kwire cluster status` prints it; None while it is unknown."""
    command = [sys.executable, "-m", "kwire", "cluster", "status", "--format", "json"]
    ended = subprocess.run(
        [*command, "--bootstrap-server", cluster.bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    return next(each["lag_max"] for each in json.loads(ended.stdout)["brokers"] if each["broker_id"] == LAST)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_follower_catches_up_at_the_throttled_rate(cluster, replicated, side):
    throttle(cluster, replicated, side, RATE)  # set on each broker itself, while all brokers run
    cluster[LAST].end(signal.SIGKILL)
    cluster.await_brokers(without={LAST})
    client = confluent.producer(cluster.bootstrap, enable_idempotence=True)
    records = [Record(value=b"x" * SIZE)] * COUNT
    assert confluent.offsets_of(confluent.send_all(client, replicated, records)) == list(range(COUNT))
    try:
        cluster[LAST].start()
        cluster.await_brokers()
        began, lags = time.monotonic(), []

        def is_back():
            lags.append(lag(cluster))
            return in_sync(cluster[1], replicated) == [3]

        eventually(is_back, "it has caught up", SECONDS)
        assert time.monotonic() - began >= (COUNT * SIZE - FREE_BYTES) / RATE
    finally:
        throttle(cluster, replicated, side, None)
    reported = [each for each in lags if each is not None]
    assert reported == sorted(reported, reverse=True)
    assert max(reported) > 0, reported
    eventually(lambda: lag(cluster) == 0, "it is not behind any more", SECONDS)
