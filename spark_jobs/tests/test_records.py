"""Kinds of records: headers, nulls, arbitrary bytes, every codec."""

import pytest
from pyspark.sql import functions as f

from compat_tests.harness.payloads import CODECS, FIRST_TIMESTAMP_MS, numbered, varied_records
from compat_tests.kafka_python.client import as_record, producer, read_from
from spark_jobs.tests.support import as_bytes, create_topic, rows, sent, source, taken, to_topic, topic_with

#: All records that kafka-python can send; Spark's sink writes the other kinds.
RECORDS = varied_records(40, null_headers=False, both_null=False)


def headers(frame):
    """Return a map from offset to headers; Spark returns null for no headers."""
    return {
        offset: tuple((each["key"], as_bytes(each["value"])) for each in shown or ())
        for offset, shown in taken(frame, ("offset", "headers"))
    }


@pytest.mark.matrix
@pytest.mark.short
def test_headers_come_in_order_with_repeated_names(spark, bootstrap, topic):
    expected = topic_with(bootstrap, topic, RECORDS)
    frame = source(spark.read, bootstrap, subscribe=topic, includeHeaders="true")
    assert rows(frame) == expected
    assert headers(frame) == {row.offset: record.headers for row, record in zip(expected, RECORDS, strict=True)}


def test_headers_are_left_out_unless_asked_for(spark, bootstrap, topic):
    topic_with(bootstrap, topic, RECORDS[:1])
    assert "headers" not in source(spark.read, bootstrap, subscribe=topic).columns


@pytest.mark.short
def test_nulls_are_nulls_and_empty_is_empty(spark, bootstrap, topic):
    create_topic(bootstrap, topic)
    shapes = [
        (None, None, ()),
        (b"k", None, (("h", None),)),
        (None, b"v", (("h", b""), ("h", None))),
        (b"", b"", (("", b"x"),)),
        (b"", None, ()),
    ]
    table = spark.createDataFrame(shapes, "key binary, value binary, headers array<struct<key string, value binary>>")
    to_topic(table.coalesce(1).write, bootstrap).option("topic", topic).save()
    frame = source(spark.read, bootstrap, subscribe=topic, includeHeaders="true")
    assert [(row.key, row.value) for row in rows(frame)] == [shape[:2] for shape in shapes]
    assert headers(frame) == dict(enumerate(shape[2] for shape in shapes))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(spark, bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    compression = None if codec == "none" else codec
    expected = sent(bootstrap, topic, RECORDS, compression_type=compression, linger_ms=50)
    frame = source(spark.read, bootstrap, subscribe=topic, includeHeaders="true")
    assert rows(frame) == expected
    assert headers(frame) == {row.offset: record.headers for row, record in zip(expected, RECORDS, strict=True)}


def test_a_batch_begins_and_ends_inside_compressed_batches(spark, bootstrap, topic):
    create_topic(bootstrap, topic)
    everything = []
    for start in (0, 20, 40):
        everything += sent(bootstrap, topic, numbered(20, start), compression_type="lz4", linger_ms=50)
    bounds = {"startingOffsets": f'{{"{topic}":{{"0":13}}}}', "endingOffsets": f'{{"{topic}":{{"0":47}}}}'}
    assert rows(source(spark.read, bootstrap, subscribe=topic, **bounds)) == everything[13:47]


@pytest.mark.parametrize("codec", CODECS)
def test_records_compressed_by_spark_are_read_by_other_clients(spark, bootstrap, topic, codec):
    create_topic(bootstrap, topic)
    frame = spark.range(200).select(f.concat(f.lit("value "), "id").alias("value"), f.lit("k").alias("key")).coalesce(1)
    to_topic(frame.write, bootstrap).option("topic", topic).option("kafka.compression.type", codec).save()
    received = read_from(bootstrap, topic, 200)
    assert [(each.key, each.value) for each in received] == [(b"k", b"value %d" % number) for number in range(200)]


def test_log_append_time_is_reported_as_timestamp_type_1(spark, bootstrap, topic):
    create_topic(bootstrap, topic, message_timestamp_type="LogAppendTime")
    with producer(bootstrap) as client:
        client.send(topic, b"v", timestamp_ms=FIRST_TIMESTAMP_MS).get(timeout=30)
    ((kind, shown),) = taken(
        source(spark.read, bootstrap, subscribe=topic), ("timestampType", f.unix_millis("timestamp"))
    )
    assert kind == 1
    assert shown > FIRST_TIMESTAMP_MS
    (received,) = read_from(bootstrap, topic, 1)
    assert as_record(received).timestamp_ms == shown
