"""A share group on three nodes, one of which fails: acknowledged records do not come again, and no other is lost."""

from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType

from compat_tests.confluent_kafka_client.client import offsets_of, producer, send_all
from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.replication.failing import HOW, WHO
from compat_tests.share_consumers.sharing import configure, share_consumer, take

pytestmark = pytest.mark.restart
PARTITIONS = 3
RECORDS = 40
SECONDS = 60


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", ["clean_shutdown", "hard_shutdown"])
def test_acknowledged_records_are_not_delivered_again_when_a_node_fails(cluster, replicated, group, who, how):
    configure(cluster[1].bootstrap, group)
    sender = producer(cluster.bootstrap)
    for partition in range(PARTITIONS):
        offsets_of(send_all(sender, replicated, numbered(RECORDS), partition=partition))
    seen, delivered = {}, Counter()

    def kind(message):
        seen[message.partition(), message.offset()] = message
        return AcknowledgeType.RELEASE if message.offset() % 2 else AcknowledgeType.ACCEPT

    with share_consumer(cluster.bootstrap, group, replicated, share_acknowledgement_mode="explicit") as client:
        eventually(lambda: take(client, 1, kind=kind) and len(seen) == PARTITIONS * RECORDS, "all is seen", SECONDS)
        assert set(client.commit_sync(SECONDS).values()) <= {None}
        HOW[how](cluster, lambda: WHO[who](cluster, replicated))
        for partition in range(PARTITIONS):
            offsets_of(send_all(sender, replicated, numbered(RECORDS), partition=partition))

        def drained():
            for message in take(client, 1, kind=lambda _: AcknowledgeType.ACCEPT):
                delivered[message.partition(), message.offset()] += 1
            return len(delivered) >= PARTITIONS * (RECORDS + RECORDS // 2)

        eventually(drained, "the rest is delivered", SECONDS)
    for node in cluster.nodes:
        if node.process is None:
            node.start()
    cluster.await_brokers()
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(2 * RECORDS)}
    assert set(delivered) == {
        (partition, offset) for partition, offset in everything if offset % 2 or offset >= RECORDS
    }
