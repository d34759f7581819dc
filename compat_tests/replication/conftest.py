"""One cluster of three nodes that are broker and controller, for all scenarios."""

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster

REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    kind = request.config.getoption("--broker")
    made = Cluster(kind, tmp_path_factory.mktemp(kind), SHAPES["combined"], **REPLICATED)
    try:
        made.start()
        yield made
    finally:
        made.end()
