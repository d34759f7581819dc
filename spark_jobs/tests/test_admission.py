"""Batch sizes: maxOffsetsPerTrigger, minOffsetsPerTrigger, and the offsets at which availableNow ends."""

import pytest

from compat_tests.harness.payloads import numbered
from spark_jobs.tests.support import Files, sent, topic_with


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


def batch_sizes(query):
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_batch_is_bounded_by_max_offsets_per_trigger(files, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(60), numbered(40))
    query = files.take_available(bootstrap, subscribe=topic, maxOffsetsPerTrigger=30)
    sizes = batch_sizes(query)
    assert sum(sizes) == 100
    assert max(sizes) <= 30
    assert len(sizes) >= 4
    assert files.rows() == expected


@pytest.mark.short
def test_available_now_ends_and_the_next_run_takes_the_rest(files, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(30), numbered(10))
    assert sum(batch_sizes(files.take_available(bootstrap, subscribe=topic))) == 40
    expected += sent(bootstrap, topic, numbered(20, 30), partition=0)
    assert sum(batch_sizes(files.take_available(bootstrap, subscribe=topic))) == 20
    assert batch_sizes(files.take_available(bootstrap, subscribe=topic)) == []
    assert files.rows() == sorted(expected)


def test_a_batch_waits_until_there_is_enough(files, bootstrap, topic):
    expected = topic_with(bootstrap, topic, numbered(10))
    query = files.start(bootstrap, subscribe=topic, minOffsetsPerTrigger=25, maxTriggerDelay="1h")
    query.processAllAvailable()
    expected += sent(bootstrap, topic, numbered(5, 10))
    query.processAllAvailable()
    assert files.rows() == expected[:10]
    expected += sent(bootstrap, topic, numbered(20, 15))
    query.processAllAvailable()
    query.stop()
    assert batch_sizes(query) == [10, 25]
    assert files.rows() == expected
