"""subscribePattern: topics by regular expression, including topics that are created later.

Spark searches for the expression anywhere in a name, so the expressions have anchors.
"""

import pytest

from compat_tests.harness.payloads import numbered
from compat_tests.harness.waiting import eventually
from spark_jobs.tests.support import SECONDS, Files, rows, sent, source, topic_with


@pytest.mark.short
def test_a_stream_finds_topics_that_are_made_while_it_runs(spark, bootstrap, unique, tmp_path):
    prefix = unique("orders")
    expected = topic_with(bootstrap, f"{prefix}-a", numbered(10))
    topic_with(bootstrap, f"not-{prefix}-a", numbered(10))
    files = Files(spark, tmp_path)
    query = files.start(bootstrap, subscribePattern=f"^{prefix}-.*")
    query.processAllAvailable()
    assert files.rows() == expected
    expected += topic_with(bootstrap, f"{prefix}-b", numbered(7), numbered(8))
    expected += sent(bootstrap, f"{prefix}-a", numbered(5, 10))
    eventually(lambda: len(files.rows()) >= len(expected), "the new topic's records", SECONDS)
    query.processAllAvailable()
    query.stop()
    assert files.rows() == sorted(expected)


def test_a_batch_reads_all_topics_that_match(spark, bootstrap, unique):
    prefix = unique("orders")
    expected = [
        row for name in ("a", "b", "c") for row in topic_with(bootstrap, f"{prefix}.{name}", numbered(4), numbered(3))
    ]
    topic_with(bootstrap, f"{prefix}_d", numbered(10))
    assert rows(source(spark.read, bootstrap, subscribePattern=rf"^{prefix}\.[abc]$")) == expected
