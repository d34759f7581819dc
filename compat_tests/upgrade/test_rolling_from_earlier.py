"""Three nodes of an earlier kwire, which replicated nothing yet, become today's one by one, under load."""

import io
import signal
import subprocess
import tarfile

import pytest

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.harness.paths import ROOT
from compat_tests.upgrade.loads import PARTITIONS, Confluent
from compat_tests.upgrade.rolling import await_health, clients_at_work
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.raw_client import RawClient

EARLIER = "279d066"
"""The last one in which a partition had one replica."""


@pytest.fixture
def cluster(tested, tmp_path):
    """Of Apache Kafka, all nodes are of one version all the time."""
    running = Cluster(tested, tmp_path, SHAPES["combined"])
    if tested == "kwire":
        sources = tmp_path / "earlier"
        command = ["git", "archive", EARLIER, "kwire"]
        archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as found:
            found.extractall(sources, filter="data")
        for node in running.nodes:
            node.sources = sources
    try:
        running.start()
        yield running
    finally:
        running.end()


def replicate(node, topic):
    """Give all partitions a replica on each node."""
    replicas = [ReassignablePartition(partition_index=index, replicas=[1, 2, 3]) for index in range(PARTITIONS)]
    wanted = ReassignableTopic(name=topic, partitions=replicas)
    with RawClient(node.bootstrap) as client:
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000), 0)
    assert [each.error_code for found in answer.responses for each in found.partitions] == [0] * PARTITIONS


def test_nodes_become_todays_and_partitions_get_replicas(cluster, unique):
    with clients_at_work(cluster, unique, [Confluent], replicas=1) as loads:
        for node in cluster.nodes:
            node.end(signal.SIGTERM)
            node.sources = None
            node.start()
            await_health(cluster)
            loads[0].await_progress()
        replicate(cluster[1], loads[0].topic)
        await_health(cluster)
        loads[0].await_progress()
