"""Clients during a stop or crash of the broker: they continue, and no record is lost or duplicated."""

import pytest
from confluent_kafka import TopicPartition

from compat_tests.confluent_kafka_client.client import (
    as_record,
    consumer,
    create_topic,
    offsets_of,
    producer,
    read,
    read_from,
    send_all,
)
from compat_tests.harness.payloads import numbered

pytestmark = pytest.mark.restart


@pytest.mark.short
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_an_idempotent_producer_continues_over_a_restart(broker, topic, clean):
    create_topic(broker.bootstrap, topic)
    records = numbered(600)
    client = producer(broker.bootstrap, enable_idempotence=True, batch_num_messages=20, compression_type="snappy")
    offsets_of(send_all(client, topic, records[:200]))
    for each in records[200:400]:
        client.produce(topic, value=each.value, key=each.key, partition=0, timestamp=each.timestamp_ms)
    client.poll(0)
    broker.restart(clean=clean)
    assert offsets_of(send_all(client, topic, records[400:])) == list(range(400, 600))
    assert [as_record(each) for each in read_from(broker.bootstrap, topic, 600)] == records


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_group_member_continues_over_a_restart(broker, topic, group, protocol, clean):
    settings = {"group_id": group, "group_protocol": protocol}
    create_topic(broker.bootstrap, topic, partitions=2)
    sender = producer(broker.bootstrap)
    for partition in range(2):
        offsets_of(send_all(sender, topic, numbered(20), partition=partition))
    with consumer(broker.bootstrap, **settings) as client:
        client.subscribe([topic])
        seen = [(each.partition(), each.value()) for each in read(client, 40)]
        client.commit(asynchronous=False)
        broker.restart(clean=clean)
        for partition in range(2):
            offsets_of(send_all(sender, topic, numbered(20, start=20), partition=partition))
        seen += [(each.partition(), each.value()) for each in read(client, 40, seconds=60)]
        client.commit(asynchronous=False)
    assert sorted(seen) == sorted((partition, b"%d" % number) for partition in range(2) for number in range(40))
    with consumer(broker.bootstrap, **settings) as client:
        found = client.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10)
    assert [each.offset for each in found] == [40, 40]
