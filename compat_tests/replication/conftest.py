"""Fixtures: one cluster of three combined nodes for all scenarios, and a topic with three replicas."""

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.waiting import eventually
from compat_tests.replication.topics import in_sync
from tests.support.raw_client import RawClient
from tests.support.requests import create_topic

PARTITIONS = 3
SECONDS = 60
SETTINGS = {
    **REPLICATED,
    "default.replication.factor": "3",
    "replica.lag.time.max.ms": "3000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    kind = request.config.getoption("--broker")
    made = Cluster(kind, tmp_path_factory.mktemp(kind), SHAPES["combined"], **SETTINGS)
    for node in made.nodes:
        node.settings["broker.rack"] = f"rack-{node.node_id}"
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def replicated(cluster, topic):
    """Create a topic, and wait until all nodes have it and all its replicas are in sync."""
    with RawClient(cluster[1].bootstrap) as client:
        create_topic(client, PARTITIONS, name=topic, replicas=3, min_insync_replicas=2)
    for node in cluster.nodes:
        eventually(lambda node=node: in_sync(node, topic) == [3] * PARTITIONS, "the topic is known everywhere", SECONDS)
    return topic
