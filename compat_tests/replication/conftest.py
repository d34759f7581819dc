"""Fixture: one cluster of three combined nodes for all scenarios."""

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.process import REPLICATED

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
