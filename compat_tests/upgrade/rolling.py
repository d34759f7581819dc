"""Cluster of three replicating nodes, and the clients that use it."""

import json
import subprocess
import sys
from contextlib import contextmanager

from confluent_kafka.admin import NewTopic

from compat_tests.cluster.clusters import SHAPES, Cluster
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.waiting import eventually
from compat_tests.upgrade.loads import DRIVERS, PARTITIONS, Load
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.raw_client import RawClient

SETTINGS = {**REPLICATED, "default.replication.factor": "3"}
HEALTHY_SECONDS = 90


def replicated_cluster(kind, directory, **settings):
    """Return a cluster of three combined nodes of one kind."""
    return Cluster(kind, directory, SHAPES["combined"], **SETTINGS, **settings)


def status(cluster):
    """Return the output of `kwire cluster status`, for either kind of cluster."""
    command = [sys.executable, "-m", "kwire", "cluster", "status", "--format", "json"]
    ended = subprocess.run(
        [*command, "--bootstrap-server", cluster.bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    return json.loads(ended.stdout) if ended.stdout else {"healthy": False, "error": ended.stderr}


def await_health(cluster):
    """Wait for a healthy cluster between two steps of a rolling restart."""
    eventually(lambda: status(cluster)["healthy"], "the cluster is healthy", HEALTHY_SECONDS)


def place(node, topic, replicas):
    """Reassign all partitions of a load's topic to these replicas."""
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index in range(PARTITIONS)]
    wanted = ReassignableTopic(name=topic, partitions=partitions)
    with RawClient(node.bootstrap) as client:
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000), 0)
    assert [each.error_code for found in answer.responses for each in found.partitions] == [0] * PARTITIONS


@contextmanager
def clients_at_work(cluster, unique, drivers=DRIVERS, *, replicas=3):
    """Run producers and groups of these libraries; check each load at the end."""
    loads = [Load(driver(), cluster.bootstrap, unique(driver.name), unique(f"of-{driver.name}")) for driver in drivers]
    admin = confluent_client.admin(cluster.bootstrap)
    for load in loads:
        confluent_client.result(admin.create_topics([NewTopic(load.topic, PARTITIONS, replicas)]))
    await_health(cluster)
    with at_work(loads):
        yield loads


@contextmanager
def at_work(loads):
    """Run loads whose topics exist, and check each at the end."""
    for load in loads:
        load.start()
    try:
        for load in loads:
            load.await_progress()
        yield
        for load in loads:
            load.await_progress()
    finally:
        for load in loads:
            load.end()
    for load in loads:
        load.check()
