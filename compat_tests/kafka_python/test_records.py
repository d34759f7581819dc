"""Records are returned byte for byte as they were sent, for every kind of record, codec, acks and batch."""

import pytest
from kafka import TopicPartition
from kafka.errors import MessageSizeTooLargeError
from kafka.partitioner import murmur2

from compat_tests.harness.payloads import CODECS, Record, large_value, numbered, varied_records
from compat_tests.kafka_python.client import as_record, consumer, create_topic, producer, read, read_from, send_all

# kafka-python rejects a record without key and value, and cannot compute the size of a null header.
RECORDS = varied_records(null_headers=False, both_null=False)


@pytest.mark.short
@pytest.mark.parametrize("codec", CODECS)
def test_every_shape_of_record_survives_every_codec(bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    with producer(bootstrap, compression_type=None if codec == "none" else codec, linger_ms=50) as client:
        metadata = send_all(client, topic, RECORDS)
    assert [each.offset for each in metadata] == list(range(len(RECORDS)))
    received = read_from(bootstrap, topic, len(RECORDS))
    assert [as_record(each) for each in received] == RECORDS
    assert [each.offset for each in received] == list(range(len(RECORDS)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acknowledgement_setting_stores_the_records(bootstrap, topic, acks):
    create_topic(bootstrap, topic)
    records = numbered(100)
    with producer(bootstrap, acks=acks, enable_idempotence=False) as client:
        metadata = send_all(client, topic, records)
    if acks != 0:  # with acks=0 the client invents offsets
        assert [each.offset for each in metadata] == list(range(100))
    assert [as_record(each) for each in read_from(bootstrap, topic, 100)] == records


@pytest.mark.short
def test_idempotent_producer_writes_in_order_over_many_small_batches(bootstrap, topic):
    create_topic(bootstrap, topic)
    records = numbered(500)
    with producer(bootstrap, enable_idempotence=True, batch_size=200) as client:
        metadata = send_all(client, topic, records)
    assert [each.offset for each in metadata] == list(range(500))
    assert [as_record(each) for each in read_from(bootstrap, topic, 500)] == records


def test_single_records_are_acknowledged_one_by_one(bootstrap, topic):
    create_topic(bootstrap, topic)
    with producer(bootstrap) as client:
        offsets = [client.send(topic, value=b"%d" % number).get(timeout=10).offset for number in range(20)]
    assert offsets == list(range(20))
    assert [each.value for each in read_from(bootstrap, topic, 20)] == [b"%d" % number for number in range(20)]


def test_keyed_records_land_on_the_partition_of_their_hash(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=4)
    with producer(bootstrap) as client:
        futures = [(number, client.send(topic, value=b"v", key=b"key-%d" % number)) for number in range(50)]
        client.flush(timeout=30)
        chosen = {number: future.get(timeout=10).partition for number, future in futures}
    assert chosen == {number: (murmur2(b"key-%d" % number) & 0x7FFFFFFF) % 4 for number in range(50)}
    assert set(chosen.values()) == {0, 1, 2, 3}


def test_partitions_are_independent_logs(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=3)
    with producer(bootstrap) as client:
        for partition in range(3):
            send_all(client, topic, numbered(10 + partition, start=100 * partition), partition=partition)
    for partition in range(3):
        received = read_from(bootstrap, topic, 10 + partition, partition=partition)
        assert [as_record(each) for each in received] == numbered(10 + partition, start=100 * partition)


def test_records_near_the_size_limit_pass_and_larger_ones_are_rejected(bootstrap, topic):
    create_topic(bootstrap, topic)
    value = large_value(1_000_000)
    with producer(bootstrap, max_request_size=8_000_000, enable_idempotence=False) as client:
        assert client.send(topic, value=value).get(timeout=20).offset == 0
        with pytest.raises(MessageSizeTooLargeError):
            client.send(topic, value=large_value(1_100_000)).get(timeout=20)
        assert client.send(topic, value=b"after").get(timeout=20).offset == 1
    assert [each.value for each in read_from(bootstrap, topic, 2)] == [value, b"after"]


def test_a_topic_may_allow_larger_records(bootstrap, topic):
    create_topic(bootstrap, topic, max_message_bytes=5_000_000)
    value = large_value(4_000_000)
    with producer(bootstrap, max_request_size=8_000_000) as client:
        assert client.send(topic, value=value).get(timeout=20).offset == 0
    # The first batch is larger than max.partition.fetch.bytes, and must still be returned as a whole.
    assert [each.value for each in read_from(bootstrap, topic, 1)] == [value]


def test_log_append_time_replaces_the_senders_timestamps(bootstrap, topic):
    create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    with producer(bootstrap) as client:
        (metadata,) = send_all(client, topic, [Record(value=b"v", timestamp_ms=1_000_000)])
    (received,) = read_from(bootstrap, topic, 1)
    assert received.timestamp_type == 1
    assert received.timestamp == metadata.timestamp > 1_700_000_000_000


def test_the_high_watermark_comes_with_fetched_records(bootstrap, topic):
    create_topic(bootstrap, topic)
    with producer(bootstrap) as client:
        send_all(client, topic, numbered(30))
    with consumer(bootstrap) as client:
        where = TopicPartition(topic, 0)
        client.assign([where])
        read(client, 30)
        assert client.highwater(where) == 30
