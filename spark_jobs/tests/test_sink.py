"""Writes to topics, in batches and as a stream, read back by kafka-python."""

import pytest

from compat_tests.harness.payloads import numbered, varied_records
from compat_tests.kafka_python.client import read_from
from spark_jobs.tests.support import SECONDS, create_topic, sent, source, to_topic, topic_with

SCHEMA = "topic string, partition int, key binary, value binary, headers array<struct<key string, value binary>>"


@pytest.mark.matrix
@pytest.mark.short
def test_a_batch_goes_to_the_topic_and_partition_that_each_row_names(spark, bootstrap, unique):
    first, second = unique("a"), unique("b")
    create_topic(bootstrap, first, partitions=2)
    create_topic(bootstrap, second)
    table = [
        (first, 1, b"k1", b"v1", [("h", b"1"), ("h", None)]),
        (first, 0, None, b"v2", None),
        (second, 0, b"gone", None, []),
    ]
    to_topic(spark.createDataFrame(table, SCHEMA).coalesce(1).write, bootstrap).save()
    for topic, partition, key, value, headers in table:
        (received,) = read_from(bootstrap, topic, 1, partition)
        assert (received.key, received.value) == (key, value)
        assert list(received.headers) == (headers or [])


class Copy:
    """Stream from one topic to another; its checkpoint is kept from run to run."""

    def __init__(self, spark, bootstrap, checkpoint):
        self.spark, self.bootstrap, self.checkpoint = spark, bootstrap, str(checkpoint)

    def run(self, origin, target, **options):
        reader = self.spark.readStream
        frame = source(
            reader, self.bootstrap, subscribe=origin, startingOffsets="earliest", includeHeaders="true", **options
        )
        writer = to_topic(frame.select("key", "value", "headers").writeStream, self.bootstrap).option("topic", target)
        query = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)


@pytest.mark.matrix
@pytest.mark.short
def test_a_stream_copies_a_topic_over_several_runs(spark, bootstrap, unique, tmp_path):
    origin, target = unique("origin"), unique("target")
    topic_with(bootstrap, origin, numbered(60))
    create_topic(bootstrap, target)
    copy = Copy(spark, bootstrap, tmp_path)
    copy.run(origin, target, maxOffsetsPerTrigger=25)
    sent(bootstrap, origin, numbered(30, 60))
    copy.run(origin, target)
    received = read_from(bootstrap, target, 90)
    assert sorted(int(each.value) for each in received) == list(range(90))
    assert all(each.key == b"k%d" % (int(each.value) % 7) for each in received)


def test_a_stream_copies_records_of_all_shapes(spark, bootstrap, unique, tmp_path):
    origin, target = unique("origin"), unique("target")
    records = varied_records(40, null_headers=False, both_null=False)
    topic_with(bootstrap, origin, records)
    create_topic(bootstrap, target)
    Copy(spark, bootstrap, tmp_path).run(origin, target)
    received = read_from(bootstrap, target, len(records))
    assert [(each.key, each.value, tuple(each.headers)) for each in received] == [
        (record.key, record.value, record.headers) for record in records
    ]


def test_writing_makes_the_topic_where_the_broker_allows_it(spark, bootstrap, topic):
    frame = spark.createDataFrame([(b"v",)], "value binary")
    to_topic(frame.write, bootstrap).option("topic", topic).save()
    (received,) = read_from(bootstrap, topic, 1)
    assert received.value == b"v"
