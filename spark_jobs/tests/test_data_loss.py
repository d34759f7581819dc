"""failOnDataLoss: behaviour of a stream and of a batch in each case in which offsets are missing (docs/spark.md)."""

import pytest
from kafka import TopicPartition
from kafka.admin import NewPartitions
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import admin
from spark_jobs.tests.support import SECONDS, Files, create_topic, rows, sent, source, topic_with

LOSS = r"(?i)data (loss|.*lost|.*missed)|failOnDataLoss"


def delete_records(bootstrap, topic, before):
    with admin(bootstrap) as client:
        client.delete_records({TopicPartition(topic, 0): before})


def recreate(bootstrap, topic):
    with admin(bootstrap) as client:
        client.delete_topics([topic])
        eventually(lambda: topic not in client.list_topics(), "the topic is gone", SECONDS)
    create_topic(bootstrap, topic)


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


@pytest.fixture
def expected(files, bootstrap, topic):
    """Return the remaining rows after a stream read 10 of 20 records and the first 15 were deleted."""
    everything = topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    everything += sent(bootstrap, topic, numbered(10, 10))
    delete_records(bootstrap, topic, before=15)
    return everything[:10] + everything[15:]


@pytest.mark.short
def test_a_stream_fails_when_records_were_deleted_before_it_came(files, bootstrap, topic, expected):
    with pytest.raises(StreamingQueryException, match=LOSS):
        files.take_available(bootstrap, subscribe=topic)
    assert files.rows() == expected[:10]


@pytest.mark.short
def test_a_stream_skips_deleted_records_without_fail_on_data_loss(files, bootstrap, topic, expected):
    files.take_available(bootstrap, subscribe=topic, failOnDataLoss="false")
    assert files.rows() == expected


def test_a_stream_fails_when_its_topic_was_recreated(files, bootstrap, topic):
    topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    recreate(bootstrap, topic)
    sent(bootstrap, topic, numbered(4))
    with pytest.raises(StreamingQueryException, match=LOSS):
        files.take_available(bootstrap, subscribe=topic)


def test_a_batch_that_starts_before_the_first_record_fails(spark, bootstrap, topic):
    topic_with(bootstrap, topic, numbered(10))
    delete_records(bootstrap, topic, before=6)
    start = f'{{"{topic}":{{"0":2}}}}'
    with pytest.raises(Py4JJavaError, match="Some data may have been lost"):
        rows(source(spark.read, bootstrap, subscribe=topic, startingOffsets=start))


def test_a_batch_skips_deleted_records_without_fail_on_data_loss(spark, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(10))
    delete_records(bootstrap, topic, before=6)
    start = f'{{"{topic}":{{"0":2}}}}'
    frame = source(spark.read, bootstrap, subscribe=topic, startingOffsets=start, failOnDataLoss="false")
    assert rows(frame) == everything[6:]
    assert rows(source(spark.read, bootstrap, subscribe=topic)) == everything[6:]


BOTH = pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])


def test_a_stream_without_fail_on_data_loss_continues_at_the_end_of_a_recreated_topic(files, bootstrap, topic):
    before = topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    recreate(bootstrap, topic)
    sent(bootstrap, topic, numbered(4))
    files.take_available(bootstrap, subscribe=topic, failOnDataLoss="false")
    after = sent(bootstrap, topic, numbered(10, 4))
    files.take_available(bootstrap, subscribe=topic, failOnDataLoss="false")
    assert files.rows() == sorted(before + after, key=lambda row: row.offset)


@BOTH
def test_a_recreated_topic_that_is_longer_goes_unnoticed(files, bootstrap, topic, fail_on_data_loss):
    before = topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    recreate(bootstrap, topic)
    after = sent(bootstrap, topic, numbered(15))
    files.take_available(bootstrap, subscribe=topic, failOnDataLoss=fail_on_data_loss)
    assert files.rows() == before + after[10:]


@BOTH
def test_a_deleted_topic_ends_a_stream(files, bootstrap, topic, fail_on_data_loss):
    before = topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    with admin(bootstrap) as client:
        client.delete_topics([topic])
        eventually(lambda: topic not in client.list_topics(), "the topic is gone", SECONDS)
    with pytest.raises(StreamingQueryException):
        files.take_available(bootstrap, subscribe=topic, failOnDataLoss=fail_on_data_loss)
    assert files.rows() == before


@BOTH
def test_new_partitions_are_read_from_their_first_record(files, bootstrap, topic, fail_on_data_loss):
    before = topic_with(bootstrap, topic, numbered(10))
    files.take_available(bootstrap, subscribe=topic)
    with admin(bootstrap) as client:
        client.create_partitions({topic: NewPartitions(2)})
    after = sent(bootstrap, topic, numbered(5, 10), 1)
    files.take_available(bootstrap, subscribe=topic, failOnDataLoss=fail_on_data_loss)
    assert files.rows() == before + after
