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
SECONDS = 90


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", ["clean_shutdown", "hard_shutdown"])
def test_acknowledged_records_are_not_delivered_again_when_a_node_fails(cluster, replicated, group, who, how):
    configure(cluster.bootstrap, group)
    sender = producer(cluster.bootstrap)
    for partition in range(PARTITIONS):
        offsets_of(send_all(sender, replicated, numbered(RECORDS), partition=partition))
    accepted, delivered = Counter(), Counter()
    with share_consumer(cluster.bootstrap, group, replicated, share_acknowledgement_mode="explicit") as client:
        for message in take(client, PARTITIONS * RECORDS, SECONDS):
            place = message.partition(), message.offset()
            is_even = message.offset() % 2 == 0
            client.acknowledge(message, AcknowledgeType.ACCEPT if is_even else AcknowledgeType.RELEASE)
            accepted.update([place] if is_even else [])
        assert set(client.commit_sync(SECONDS).values()) <= {None}
        HOW[how](cluster, lambda: WHO[who](cluster, replicated))
        for partition in range(PARTITIONS):
            offsets_of(send_all(sender, replicated, numbered(RECORDS), partition=partition))

        def drained():
            for message in client.poll(0.2):
                client.acknowledge(message)
                delivered.update([(message.partition(), message.offset())])
            return len(delivered) >= PARTITIONS * (RECORDS + RECORDS // 2)

        eventually(drained, "the rest is delivered", SECONDS)
    for node in cluster.nodes:
        if node.process is None:
            node.start()
    cluster.await_brokers()
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(2 * RECORDS)}
    assert set(delivered) == everything - set(accepted)
