"""Committed records only: aborted transactions, offset gaps at transaction markers, and open transactions."""

import json

import pytest

from compat_tests.harness.payloads import numbered
from compat_tests.kafka_python.client import producer, send_all
from spark_jobs.tests.support import Files, Row, create_topic, rows, sent, source

COMMITTED = {"kafka.isolation.level": "read_committed"}


class Transactions:
    """Transactional producer, and the rows that a read_committed reader must return for its transactions."""

    def __init__(self, client, bootstrap):
        self.client = client
        self.bootstrap = bootstrap
        self.committed = []
        client.init_transactions()

    def begin(self, topic, *partitions):
        """Begin a transaction that writes a list of records into each partition; return their rows."""
        self.client.begin_transaction()
        return [
            Row(topic, each.partition, each.offset, record.key, record.value, record.timestamp_ms)
            for number, records in enumerate(partitions)
            for each, record in zip(send_all(self.client, topic, records, number), records, strict=True)
        ]

    def commit(self, topic, *partitions):
        self.committed += self.begin(topic, *partitions)
        self.client.commit_transaction()

    def abort(self, topic, *partitions):
        self.begin(topic, *partitions)
        self.client.abort_transaction()

    def some_of_each(self, topic, start=0):
        """Commit and abort transactions alternately in two partitions; the last one in the log is aborted."""
        for number in range(start, start + 40, 10):
            self.commit(topic, numbered(10, number), numbered(3, number))
            self.abort(topic, numbered(7, 1000), numbered(9, 1000))
        return sorted(self.committed)


@pytest.fixture
def transactions(bootstrap, unique):
    with producer(bootstrap, transactional_id=unique("id"), batch_size=300) as client:
        yield Transactions(client, bootstrap)


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


@pytest.mark.short
def test_a_batch_reads_committed_records_only(spark, bootstrap, topic, transactions):
    create_topic(bootstrap, topic, partitions=2)
    expected = transactions.some_of_each(topic)
    assert rows(source(spark.read, bootstrap, subscribe=topic, **COMMITTED)) == expected
    everything = rows(source(spark.read, bootstrap, subscribe=topic))
    assert len(everything) == len(expected) + 4 * (7 + 9)


def test_one_partition_with_gaps_is_read_by_many_tasks(spark, bootstrap, topic, transactions):
    create_topic(bootstrap, topic, partitions=2)
    expected = transactions.some_of_each(topic)
    frame = source(spark.read, bootstrap, subscribe=topic, minPartitions=8, **COMMITTED)
    assert frame.rdd.getNumPartitions() == 8
    assert rows(frame) == expected


def test_a_batch_begins_and_ends_in_gaps(spark, bootstrap, topic, transactions):
    create_topic(bootstrap, topic)
    transactions.commit(topic, numbered(5))  # its marker has offset 5
    transactions.abort(topic, numbered(5))  # 6 to 10, and 11
    transactions.commit(topic, numbered(5, 5))  # 12 to 16, and 17
    transactions.abort(topic, numbered(5))  # 18 to 22, and 23
    for first, last, expected in (
        (5, 20, transactions.committed[5:]),
        (8, 17, transactions.committed[5:]),
        (6, 11, []),
    ):
        limits = {
            "startingOffsets": json.dumps({topic: {"0": first}}),
            "endingOffsets": json.dumps({topic: {"0": last}}),
        }
        assert rows(source(spark.read, bootstrap, subscribe=topic, **limits, **COMMITTED)) == expected


@pytest.mark.short
def test_a_batch_ends_where_a_transaction_is_open(spark, bootstrap, topic, transactions):
    create_topic(bootstrap, topic)
    before = sent(bootstrap, topic, numbered(4))
    transactions.committed += transactions.begin(topic, numbered(4, 4))
    behind = sent(bootstrap, topic, numbered(4, 8))
    assert rows(source(spark.read, bootstrap, subscribe=topic, **COMMITTED)) == before
    transactions.client.commit_transaction()
    everything = before + transactions.committed + behind
    assert rows(source(spark.read, bootstrap, subscribe=topic, **COMMITTED)) == everything


@pytest.mark.short
@pytest.mark.parametrize("at_once", [None, 13], ids=["all", "few"])
def test_a_stream_takes_committed_records_over_several_runs(files, bootstrap, topic, transactions, at_once):
    create_topic(bootstrap, topic, partitions=2)
    options = COMMITTED | ({"maxOffsetsPerTrigger": at_once} if at_once else {})
    for start in (0, 100):
        expected = transactions.some_of_each(topic, start)
        files.take_available(bootstrap, subscribe=topic, **options)
        assert files.rows() == expected


def test_a_running_stream_waits_behind_an_open_transaction(files, bootstrap, topic, transactions):
    create_topic(bootstrap, topic)
    before = sent(bootstrap, topic, numbered(4))
    query = files.start(bootstrap, subscribe=topic, **COMMITTED)
    query.processAllAvailable()
    transactions.committed += transactions.begin(topic, numbered(4, 4))
    behind = sent(bootstrap, topic, numbered(4, 8))
    query.processAllAvailable()
    assert files.rows() == before
    transactions.client.commit_transaction()
    transactions.abort(topic, numbered(4))
    query.processAllAvailable()
    query.stop()
    assert files.rows() == before + transactions.committed + behind


def test_a_stream_reads_committed_records_over_a_killed_broker(files, broker, topic, transactions):
    create_topic(broker.bootstrap, topic, partitions=2)
    transactions.some_of_each(topic)
    query = files.start(broker.bootstrap, subscribe=topic, **COMMITTED)
    query.processAllAvailable()
    broker.restart(clean=False)
    expected = transactions.some_of_each(topic, 100)
    query.processAllAvailable()
    query.stop()
    assert files.rows() == expected
