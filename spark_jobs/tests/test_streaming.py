"""Streaming reads with a checkpoint: every record exactly once over stops, failures and restarts."""

import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from spark_jobs.tests.support import SECONDS, Files, rows, sent, source, topic_with


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


@pytest.mark.matrix
@pytest.mark.short
def test_a_stream_continues_where_it_stopped(files, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(40), numbered(25), [])
    query = files.start(bootstrap, subscribe=topic)
    query.processAllAvailable()
    assert files.rows() == expected
    expected += sent(bootstrap, topic, numbered(30, 40), partition=0)  # while the query runs
    query.processAllAvailable()
    query.stop()
    expected += sent(bootstrap, topic, numbered(30, 25), partition=1)  # while the query is stopped
    expected += sent(bootstrap, topic, numbered(10), partition=2)
    query = files.start(bootstrap, subscribe=topic)
    query.processAllAvailable()
    query.stop()
    assert files.rows() == sorted(expected)


def test_stops_within_batches_neither_lose_nor_duplicate_records(files, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(400), numbered(300))
    for _ in range(3):
        query = files.start(bootstrap, subscribe=topic, maxOffsetsPerTrigger=60)
        eventually(lambda: len(query.recentProgress) >= 2, "two batches", SECONDS)  # noqa: B023 called in this turn
        query.stop()
    files.take_available(bootstrap, subscribe=topic)
    assert files.rows() == expected


def test_a_failed_batch_is_repeated_with_the_same_records(spark, bootstrap, topic, tmp_path):
    expected = topic_with(bootstrap, topic, numbered(10), numbered(15))
    batches = []

    def note(frame, number):
        batches.append((number, rows(frame)))
        if len(batches) == 1:
            raise RuntimeError("the sink fails after it has written")

    def start():
        frame = source(spark.readStream, bootstrap, subscribe=topic, startingOffsets="earliest")
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="the sink fails"):
        start().awaitTermination(SECONDS)
    late = sent(bootstrap, topic, numbered(5, 10), partition=0)
    assert start().awaitTermination(SECONDS)
    assert batches == [(0, expected), (0, expected), (1, late)]


def test_a_stream_outlives_a_broker_that_is_killed(files, broker, topic):
    bootstrap = broker.bootstrap
    expected = topic_with(bootstrap, topic, numbered(50))
    query = files.start(bootstrap, subscribe=topic)
    query.processAllAvailable()
    broker.restart(clean=False)
    expected += sent(bootstrap, topic, numbered(50, 50))
    query.processAllAvailable()
    query.stop()
    assert files.rows() == expected


def test_a_new_stream_begins_at_a_time(spark, files, bootstrap, topic):
    everything = topic_with(bootstrap, topic, numbered(20))
    frame = source(spark.readStream, bootstrap, subscribe=topic, startingTimestamp=everything[12].timestamp_ms)
    query = files.writer(frame).trigger(availableNow=True).start(files.data)
    assert query.awaitTermination(SECONDS)
    assert files.rows() == everything[12:]


def test_a_new_stream_begins_at_the_end_by_default(spark, files, bootstrap, topic):
    topic_with(bootstrap, topic, numbered(20))
    query = files.writer(source(spark.readStream, bootstrap, subscribe=topic)).start(files.data)
    query.processAllAvailable()
    late = sent(bootstrap, topic, numbered(5, 20))
    query.processAllAvailable()
    query.stop()
    assert files.rows() == late
