"""Records are returned byte for byte as they were sent, for every kind of record, codec, acks and batch."""

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, TopicPartition, consistent, murmur2

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
from compat_tests.harness.payloads import CODECS, FIRST_TIMESTAMP_MS, Record, large_value, numbered, varied_records

RECORDS = varied_records()


@pytest.mark.short
@pytest.mark.parametrize("codec", CODECS)
def test_every_shape_of_record_survives_every_codec(bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    client = producer(bootstrap, compression_type=codec, linger_ms=50)
    assert offsets_of(send_all(client, topic, RECORDS)) == list(range(len(RECORDS)))
    received = read_from(bootstrap, topic, len(RECORDS))
    assert [as_record(each) for each in received] == RECORDS
    assert [each.offset() for each in received] == list(range(len(RECORDS)))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_topic_compression_type_recompresses_records(bootstrap, topic, codec):
    create_topic(bootstrap, topic, compression_type=codec)
    client = producer(bootstrap, compression_type="none", linger_ms=50)
    assert offsets_of(send_all(client, topic, RECORDS)) == list(range(len(RECORDS)))
    assert [as_record(each) for each in read_from(bootstrap, topic, len(RECORDS))] == RECORDS


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acknowledgement_setting_stores_the_records(bootstrap, topic, acks):
    create_topic(bootstrap, topic)
    records = numbered(100)
    offsets = offsets_of(send_all(producer(bootstrap, acks=acks), topic, records))
    if acks != "0":
        assert offsets == list(range(100))
    assert [as_record(each) for each in read_from(bootstrap, topic, 100)] == records


@pytest.mark.short
def test_idempotent_producer_writes_in_order_over_many_small_batches(bootstrap, topic):
    create_topic(bootstrap, topic)
    records = numbered(500)
    client = producer(bootstrap, enable_idempotence=True, batch_num_messages=7)
    assert offsets_of(send_all(client, topic, records)) == list(range(500))
    assert [as_record(each) for each in read_from(bootstrap, topic, 500)] == records


def test_single_records_are_acknowledged_one_by_one(bootstrap, topic):
    create_topic(bootstrap, topic)
    client = producer(bootstrap, linger_ms=0)
    for number in range(20):
        assert offsets_of(send_all(client, topic, numbered(1, start=number))) == [number]
    assert [as_record(each) for each in read_from(bootstrap, topic, 20)] == numbered(20)


@pytest.mark.parametrize("partitioner", ["consistent_random", "murmur2_random"])
def test_keyed_records_land_on_the_partition_of_their_hash(bootstrap, topic, partitioner):
    create_topic(bootstrap, topic, partitions=4)
    client = producer(bootstrap, partitioner=partitioner)
    chosen = {}
    for number in range(50):
        key = b"key-%d" % number
        client.produce(topic, value=b"v", key=key, on_delivery=lambda _, each: chosen.update({each.key(): each}))
    assert client.flush(30) == 0
    place = murmur2 if partitioner == "murmur2_random" else consistent
    assert {key: each.partition() for key, each in chosen.items()} == {key: place(key, 4) for key in chosen}
    assert len(chosen) == 50
    assert {each.partition() for each in chosen.values()} == {0, 1, 2, 3}


def test_records_near_the_size_limit_pass_and_larger_ones_are_rejected(bootstrap, topic):
    create_topic(bootstrap, topic)
    client = producer(bootstrap, message_max_bytes=8_000_000)
    value = large_value(1_000_000)
    assert offsets_of(send_all(client, topic, [Record(value=value)])) == [0]
    ((_, error),) = send_all(client, topic, [Record(value=large_value(1_100_000))])
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert offsets_of(send_all(client, topic, [Record(value=b"after")])) == [1]
    assert [each.value() for each in read_from(bootstrap, topic, 2)] == [value, b"after"]


def test_a_topic_may_allow_larger_records(bootstrap, topic):
    create_topic(bootstrap, topic, max_message_bytes=5_000_000)
    value = large_value(4_000_000)
    assert offsets_of(send_all(producer(bootstrap, message_max_bytes=8_000_000), topic, [Record(value=value)])) == [0]
    received = read_from(bootstrap, topic, 1, max_partition_fetch_bytes=1000)
    assert [each.value() for each in received] == [value]


def test_log_append_time_replaces_the_senders_timestamps(bootstrap, topic):
    create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    offsets_of(send_all(producer(bootstrap), topic, [Record(value=b"v", timestamp_ms=1_000_000)]))
    (received,) = read_from(bootstrap, topic, 1)
    kind, timestamp = received.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert timestamp > FIRST_TIMESTAMP_MS


def test_timestamps_out_of_the_topics_bounds_are_rejected(bootstrap, topic):
    create_topic(bootstrap, topic, message_timestamp_before_max_ms=3_600_000)
    ((_, error),) = send_all(producer(bootstrap), topic, [Record(value=b"old", timestamp_ms=1_000_000)])
    assert error.name() == "INVALID_TIMESTAMP"


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_compacted_topic_rejects_records_without_key(bootstrap, topic, codec):
    create_topic(bootstrap, topic, cleanup_policy="compact")
    client = producer(bootstrap, compression_type=codec)
    ((_, error),) = send_all(client, topic, [Record(value=b"no key " * 50)])
    assert error.name() == "INVALID_RECORD"
    assert offsets_of(send_all(client, topic, [Record(value=b"keyed", key=b"k")])) == [0]


def test_reading_ends_at_the_high_watermark(bootstrap, topic):
    create_topic(bootstrap, topic)
    offsets_of(send_all(producer(bootstrap), topic, numbered(30)))
    with consumer(bootstrap, enable_partition_eof=True) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        read(client, 30)
        end = client.poll(10)
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 30)
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=5) == (0, 30)
