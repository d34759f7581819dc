"""Partitions with replicas of both kinds: kwire and Apache Kafka replicate from each other and lead in turns.

Node 1 is a controller of one kind. Nodes 2 and 4 are brokers of the same kind, node 3 is a broker of the other.
"""

import re
import signal
import subprocess
from collections.abc import Sequence

import pytest
from confluent_kafka.admin import NewTopic

from compat_tests.cluster.clusters import Cluster
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.confluent_kafka_client import transactional as confluent
from compat_tests.harness.payloads import numbered
from compat_tests.harness.process import REPLICATED
from compat_tests.harness.reference import JVM, class_path
from compat_tests.harness.transactions import alternating, count, expected
from compat_tests.harness.waiting import eventually
from compat_tests.mixed.replicas import await_in_sync, partitions, stored, write
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from tests.support.raw_client import RawClient

BROKERS = (2, 3, 4)
ROLES = ("controller", "broker", "broker", "broker")
SECONDS = 60
PREFERRED = 0
REPORTS = 3
UNEQUAL = re.compile(r"doesn't match|unequal|checksum", re.IGNORECASE)


@pytest.fixture(scope="module", params=["kafka", "kwire"])
def mixed(request, tested, tmp_path_factory):
    """Start a controller of one kind, with brokers of that kind, the other kind, and that kind again."""
    other = {"kafka": tested, "kwire": "kafka"}[request.param]
    controller = tested if request.param == "kwire" else "kafka"
    cluster = Cluster(
        (controller, controller, other, controller), tmp_path_factory.mktemp("mixed"), ROLES, **REPLICATED
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def replicated(mixed, topic):
    client = mixed.admin(mixed[2])
    confluent_client.result(client.create_topics([NewTopic(topic, 3, 3)]))
    await_in_sync(mixed, topic)
    return topic


def lead(cluster, topic, order: Sequence[int]):
    """Reassign the replicas to this order and elect the first one as leader."""
    wanted = ReassignableTopic(
        name=topic,
        partitions=[ReassignablePartition(partition_index=index, replicas=list(order)) for index in range(3)],
    )
    with RawClient(cluster[2].bootstrap) as client:
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000), 0)
        assert [each.error_code for found in answer.responses for each in found.partitions] == [0] * 3

        def is_led():
            chosen = ElectLeadersTopicPartitions(topic=topic, partitions=[0, 1, 2])
            client.ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[chosen], timeout_ms=10_000), 2)
            found = partitions(cluster, topic)
            return all(leader == order[0] and isr == set(order) for leader, isr in found.values())

        eventually(is_led, f"{order[0]} leads", SECONDS)


def verify_replicas(cluster, topic):
    """Return the last lag from Apache Kafka's ReplicaVerificationTool, which compares the batches of the replicas."""
    command = ["java", *JVM, "-cp", class_path(), "org.apache.kafka.tools.ReplicaVerificationTool"]
    command += ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--report-interval-ms", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, lags = [], []
    try:
        for line in process.stdout:
            said.append(line)
            lags += map(int, re.findall(r"max lag is (-?\d+) for partition", line))
            if len(lags) == REPORTS:
                return lags[-1], "".join(said)
    finally:
        process.kill()
        process.communicate()
    raise AssertionError("".join(said))


def test_kwire_and_kafka_replicas_lead_and_follow_in_turns(mixed, replicated):
    size = 20
    for turn, order in enumerate(((2, 3, 4), (3, 4, 2), (4, 3, 2), (3, 2, 4))):
        lead(mixed, replicated, order)
        assert (
            write(mixed, replicated, size, compression_type=("none", "gzip", "zstd", "lz4")[turn])
            == [list(range(size * turn, size * (turn + 1)))] * 3
        )
    for partition in range(3):
        assert stored(mixed, replicated, partition, 4 * size) == 4 * [each.value for each in numbered(size)]
    lag, said = verify_replicas(mixed, replicated)
    assert lag == 0, said
    assert not UNEQUAL.search(said), said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("goes", [2, 3])
def test_a_kwire_or_kafka_leader_stops_and_rejoins(mixed, replicated, goes, number):
    rest = [each for each in BROKERS if each != goes]
    lead(mixed, replicated, [goes, *rest])
    write(mixed, replicated, 20)
    mixed[goes].end(number)
    assert write(mixed, replicated, 20) == [list(range(20, 40))] * 3
    await_in_sync(mixed, replicated, rest)
    mixed[goes].start()
    mixed.await_brokers()
    await_in_sync(mixed, replicated)
    lead(mixed, replicated, [goes, *rest])
    assert write(mixed, replicated, 20) == [list(range(40, 60))] * 3
    for partition in range(3):
        assert stored(mixed, replicated, partition, 60) == 3 * [each.value for each in numbered(20)]


def test_transactions_span_partitions_of_kwire_and_kafka(mixed, replicated, unique):
    places = [(replicated, index) for index in range(3)]
    plan = alternating(places, 9)
    client = confluent.transactional(mixed.bootstrap, unique("id"))
    for transaction in plan:
        confluent.run(client, transaction)
    wanted = expected(plan)
    for order in ((2, 3, 4), (3, 4, 2)):
        lead(mixed, replicated, order)
        assert confluent.read_places(mixed.bootstrap, places, count(wanted)) == wanted
