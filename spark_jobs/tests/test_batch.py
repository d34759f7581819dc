"""Batch reads: by offsets, by timestamps, over several topics and partitions."""

import json

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from compat_tests.harness.payloads import FIRST_TIMESTAMP_MS, TIMESTAMP_STEP_MS, numbered
from spark_jobs.tests.support import create_topic, rows, sent, source, topic_with

EARLIEST, LATEST = -2, -1


def moment(number):
    """Return the timestamp of numbered record `number`."""
    return FIRST_TIMESTAMP_MS + number * TIMESTAMP_STEP_MS


@pytest.mark.matrix
@pytest.mark.short
def test_a_batch_reads_a_topic_from_its_beginning_to_its_end(spark, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(50), numbered(30), [])
    assert rows(source(spark.read, bootstrap, subscribe=topic)) == expected


@pytest.mark.matrix
@pytest.mark.short
def test_a_batch_reads_between_offsets(spark, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(10), numbered(10), numbered(10))
    frame = source(
        spark.read,
        bootstrap,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 2, "1": EARLIEST, "2": 5}}),
        endingOffsets=json.dumps({topic: {"0": 7, "1": LATEST, "2": 5}}),
    )
    assert rows(frame) == everything[2:7] + everything[10:20]


def test_a_batch_keeps_its_end_while_the_topic_grows(spark, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(10))
    until = json.dumps({topic: {"0": 10}})
    frame = source(spark.read, bootstrap, subscribe=topic, endingOffsets=until)
    sent(bootstrap, topic, numbered(5, 10))
    assert rows(frame) == expected


def test_a_batch_reads_several_topics(spark, bootstrap, unique):
    first, second = unique("a"), unique("b")
    expected = topic_with(bootstrap, first, numbered(7)) + topic_with(bootstrap, second, numbered(3), numbered(4))
    assert rows(source(spark.read, bootstrap, subscribe=f"{first},{second}")) == expected


def test_a_batch_reads_assigned_partitions_only(spark, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(5), numbered(5), numbered(5))
    frame = source(spark.read, bootstrap, assign=json.dumps({topic: [0, 2]}))
    assert rows(frame) == everything[:5] + everything[10:]


def test_one_partition_is_read_by_many_tasks(spark, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(1000))
    frame = source(spark.read, bootstrap, subscribe=topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert rows(frame) == expected


def test_an_empty_topic_gives_no_rows(spark, bootstrap, topic):
    create_topic(bootstrap, topic, partitions=3)
    assert rows(source(spark.read, bootstrap, subscribe=topic)) == []


@pytest.mark.short
def test_a_batch_reads_between_two_times(spark, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(20), numbered(20, 5))
    frame = source(spark.read, bootstrap, subscribe=topic, startingTimestamp=moment(8) - 1, endingTimestamp=moment(15))
    assert rows(frame) == everything[8:15] + everything[20 + 3 : 20 + 10]


def test_each_partition_has_its_own_times(spark, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(20), numbered(20))
    frame = source(
        spark.read,
        bootstrap,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": moment(3), "1": moment(18)}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": moment(6), "1": moment(1000)}}),
    )
    assert rows(frame) == everything[3:6] + everything[20 + 18 :]


def test_a_time_after_the_last_record_is_an_error_or_the_end(spark, bootstrap, topic):
    topic_with(bootstrap, topic, numbered(5))
    options = {"subscribe": topic, "startingTimestamp": moment(1000)}
    with pytest.raises(PySparkException, match="No offset matched"):
        rows(source(spark.read, bootstrap, **options))
    frame = source(spark.read, bootstrap, startingOffsetsByTimestampStrategy="latest", **options)
    assert rows(frame) == []


def test_offsets_beyond_the_end_are_rejected(spark, bootstrap, topic):
    topic_with(bootstrap, topic, numbered(5))
    until = json.dumps({topic: {"0": 9}})
    frame = source(spark.read, bootstrap, subscribe=topic, endingOffsets=until, **{"kafkaConsumer.pollTimeoutMs": 500})
    with pytest.raises(Py4JJavaError, match="Some data may have been lost"):
        rows(frame)
