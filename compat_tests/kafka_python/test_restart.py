"""Clients during a stop or crash of the broker: they continue, and no record is lost or duplicated."""

import threading

import pytest
from kafka import TopicPartition

from compat_tests.harness.payloads import numbered
from compat_tests.kafka_python.client import as_record, consumer, create_topic, producer, read, read_from, send_all

pytestmark = pytest.mark.restart
BACK_OFF = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500}


@pytest.mark.short
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_an_idempotent_producer_continues_over_a_restart(broker, topic, clean):
    create_topic(broker.bootstrap, topic)
    records = numbered(600)
    with producer(broker.bootstrap, enable_idempotence=True, batch_size=500, **BACK_OFF) as client:
        send_all(client, topic, records[:200])
        futures = [client.send(topic, value=each.value, key=each.key, partition=0, timestamp_ms=each.timestamp_ms)
                   for each in records[200:400]]  # fmt: skip
        broker.restart(clean=clean)
        offsets = [future.get(timeout=60).offset for future in futures]
        send_all(client, topic, records[400:])
    # kafka-python 3.0.12 may send a batch again with a new producer epoch when it loses its connection, also with
    # Apache Kafka: then that batch is stored twice.
    assert offsets == sorted(set(offsets))
    stored = len(records) + offsets[-1] - 399
    received = [as_record(each) for each in read_from(broker.bootstrap, topic, stored)]
    assert [received[offset] for offset in offsets] == records[200:400]
    assert list(dict.fromkeys(each.value for each in received)) == [each.value for each in records]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_records_offsets_and_committed_offsets_survive_a_restart(broker, topic, group, clean):
    create_topic(broker.bootstrap, topic, partitions=2)
    with producer(broker.bootstrap, compression_type="zstd") as client:
        for partition in range(2):
            send_all(client, topic, numbered(40), partition=partition)
    with consumer(broker.bootstrap, topic, group_id=group) as client:
        read(client, 80)
        client.commit()
    broker.restart(clean=clean)
    with producer(broker.bootstrap) as client:
        assert send_all(client, topic, numbered(1, start=40))[0].offset == 40
    with consumer(broker.bootstrap, topic, group_id=group) as client:
        assert [each.value for each in read(client, 1)] == [b"40"]
        assert client.committed(TopicPartition(topic, 1)) == 40
    assert [as_record(each) for each in read_from(broker.bootstrap, topic, 41)] == numbered(41)


def test_a_group_member_continues_over_a_restart(broker, topic, group):
    create_topic(broker.bootstrap, topic)
    with producer(broker.bootstrap, **BACK_OFF) as sender, consumer(
        broker.bootstrap, topic, group_id=group, heartbeat_interval_ms=200, session_timeout_ms=6000, **BACK_OFF
    ) as reader:  # fmt: skip
        send_all(sender, topic, numbered(20))
        values = [each.value for each in read(reader, 20)]
        reader.commit()
        broker.restart()
        later = threading.Thread(target=send_all, args=(sender, topic, numbered(20, start=20)))
        later.start()
        values += [each.value for each in read(reader, 20, seconds=60)]
        later.join()
    assert values == [b"%d" % number for number in range(40)]
