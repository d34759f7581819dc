"""Scenarios of Kafka's replication system test: three replicas, min.insync.replicas=2, and a node that fails.

Kafka's VerifiableProducer and VerifiableConsumer run meanwhile. Every acknowledged record is stored and consumed.
"""

from contextlib import contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from compat_tests.confluent_kafka_client import client as confluent
from compat_tests.harness.waiting import eventually
from compat_tests.replication.failing import HOW, WHO
from compat_tests.replication.topics import in_sync
from tests.cluster_processes import verifiable

pytestmark = pytest.mark.restart
PARTITIONS = 3
THROUGHPUT = 200
BEFORE, AFTER = 200, 400
SECONDS = 60


@contextmanager
def at_work(cluster, topic, directory):
    """Run both tools during the scenario."""
    tools = [
        verifiable.start(tool, directory, [], cluster.bootstrap, topic, throughput=THROUGHPUT)
        for tool in ("VerifiableProducer", "VerifiableConsumer")
    ]
    try:
        yield tools
    finally:
        for tool in tools:
            tool.kill()


def acknowledged(producer):
    return sum(event["name"] == "producer_send_success" for event in producer.events())


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", HOW)
def test_acknowledged_records_survive_faults_and_are_consumed(cluster, replicated, tmp_path, who, how):
    with at_work(cluster, replicated, tmp_path) as (producer, consumer):
        eventually(lambda: acknowledged(producer) >= BEFORE, "records are acknowledged", SECONDS)
        HOW[how](cluster, lambda: WHO[who](cluster, replicated))
        wanted = acknowledged(producer) + AFTER
        eventually(lambda: acknowledged(producer) >= wanted, "records are acknowledged afterwards", SECONDS)
        for node in cluster.nodes:
            if node.process is None:
                node.start()
        cluster.await_brokers()
        assert producer.stop(), producer.output.read_text()[-2000:]
        found = verifiable.await_consumed(producer, consumer)
        assert consumer.stop(), consumer.output.read_text()[-2000:]
    assert not found.rejected
    assert verifiable.judge(found, stored(cluster, replicated)) == []
    for node in cluster.nodes:
        eventually(lambda node=node: in_sync(node, replicated) == [3] * PARTITIONS, "all are in sync again", SECONDS)


def stored(cluster, topic):
    """Return all values in the topic, by topic and partition."""
    places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
    with confluent.consumer(cluster.bootstrap, group_id="nobody") as client:
        ends = {each.partition: client.get_watermark_offsets(each, timeout=20)[1] for each in places}
        client.assign(places)
        messages = confluent.read(client, sum(ends.values()), SECONDS)
    return {(each.partition(), each.offset()): each.value().decode() for each in messages}
