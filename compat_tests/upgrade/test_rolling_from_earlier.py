"""Three nodes of an earlier kwire without replication are upgraded to the current one, one by one, under load."""

import signal

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.upgrade.earlier import unpack_sources
from compat_tests.upgrade.loads import Confluent
from compat_tests.upgrade.rolling import await_health, clients_at_work, place

EARLIER = "279d066"
"""Last commit before a partition could have more than one replica."""


@pytest.fixture
def cluster(tested, tmp_path):
    """Start the cluster; if Apache Kafka is tested, all nodes have one version all the time."""
    running = Cluster(tested, tmp_path, SHAPES["combined"])
    if tested == "kwire":
        sources = unpack_sources(EARLIER, tmp_path / "earlier")
        for node in running.nodes:
            node.sources = sources
    try:
        running.start()
        yield running
    finally:
        running.end()


def test_a_rolling_upgrade_then_adds_replicas_to_partitions(cluster, unique):
    with clients_at_work(cluster, unique, [Confluent], replicas=1) as loads:
        for node in cluster.nodes:
            node.end(signal.SIGTERM)
            node.sources = None
            node.start()
            await_health(cluster)
            loads[0].await_progress()
        place(cluster[1], loads[0].topic, [1, 2, 3])
        await_health(cluster)
        loads[0].await_progress()
