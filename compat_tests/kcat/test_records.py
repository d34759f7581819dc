"""kcat's records are returned byte for byte, and kcat reads records of another client."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.harness.payloads import CODECS, HEADERS, Record, large_value, varied_records
from compat_tests.kcat.tool import consume, kcat, produce

LINES = [(b"k%d" % number, b"value %d " % number * (number % 9)) for number in range(1, 60)]
CHATTY = varied_records()


def printable(record):
    """Return True if kcat's output has the record's headers unambiguously: it joins name=value pairs with commas."""
    return record.headers in (HEADERS[0], HEADERS[2]) or any(value is None for _, value in record.headers)


@pytest.mark.short
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_the_same_bytes_back(bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, LINES, "-z", codec)
    received = consume(bootstrap, topic)
    assert [(each.record.key, each.record.value) for each in received] == LINES
    assert [each.offset for each in received] == list(range(len(LINES)))


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_every_shape_of_record_from_another_client(bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    records = [each for each in CHATTY if printable(each)]
    offsets_of(send_all(producer(bootstrap, compression_type=codec, linger_ms=50), topic, records))
    assert [each.record for each in consume(bootstrap, topic)] == records


def test_nulls_and_headers_are_sent(bootstrap, topic):
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [(b"gone", b""), (None, b"no key")], "-Z", "-H", "one=1", "-H", "one=2", "-H", "bare")
    headers = (("one", b"1"), ("one", b"2"), ("bare", None))
    received = [(each.record.key, each.record.value, each.record.headers) for each in consume(bootstrap, topic)]
    assert received == [(b"gone", None, headers), (None, b"no key", headers)]


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_every_acknowledgement_setting_stores_the_records(bootstrap, topic, acks):
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, LINES, "-X", f"request.required.acks={acks}")
    assert [each.record.value for each in consume(bootstrap, topic)] == [value for _, value in LINES]


@pytest.mark.short
def test_idempotent_producer_writes_in_order_over_many_small_batches(bootstrap, topic):
    create_topic(bootstrap, topic)
    lines = [(b"k", b"%d" % number) for number in range(500)]
    produce(bootstrap, topic, lines, "-X", "enable.idempotence=true", "-X", "batch.num.messages=7")
    assert [(each.record.key, each.record.value) for each in consume(bootstrap, topic)] == lines


def test_keyed_records_of_one_key_stay_together(bootstrap, topic):
    create_topic(bootstrap, topic, partitions=4)
    produce(bootstrap, topic, [(b"k%d" % (number % 10), b"%d" % number) for number in range(100)])
    received = {partition: consume(bootstrap, topic, partition=partition) for partition in range(4)}
    assert sum(map(len, received.values())) == 100
    homes = {(each.record.key, partition) for partition, records in received.items() for each in records}
    assert len(homes) == 10
    assert len({partition for _, partition in homes}) > 1


def test_records_near_the_size_limit_pass_and_larger_ones_are_rejected(bootstrap, topic, tmp_path):
    create_topic(bootstrap, topic)
    payload = tmp_path / "payload"
    limit = ("-X", "message.max.bytes=8000000")
    payload.write_bytes(large_value(1_000_000))
    kcat(bootstrap, "-P", "-t", topic, *limit, str(payload))
    payload.write_bytes(large_value(1_100_000))
    rejected = kcat(bootstrap, "-P", "-t", topic, *limit, str(payload), check=False)
    assert b"Message size too large" in rejected.stderr
    received = consume(bootstrap, topic)
    assert [each.record.value for each in received] == [large_value(1_000_000)]


def test_json_envelopes_match_the_stored_records(bootstrap, topic):
    create_topic(bootstrap, topic)
    offsets_of(
        send_all(producer(bootstrap), topic, [Record(value=b"payload", key=b"k", timestamp_ms=1_720_000_000_123)])
    )
    line = kcat(bootstrap, "-C", "-q", "-e", "-J", "-t", topic, "-o", "beginning").stdout
    for part in (b'"offset":0', b'"tstype":"create"', b'"ts":1720000000123', b'"broker":1', b'"payload":"payload"'):
        assert part in line
