"""Transactions: committed records are read once and in order, aborted ones never; fencing, timeouts, kills."""

import threading

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, ProducerFencedError

from compat_tests.harness.payloads import numbered
from compat_tests.harness.transactions import PARTITIONS, alternating, count, expected, places_of
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python.client import consumer, create_topic, producer, read, read_from, send_all

READ_COMMITTED = {"isolation_level": "read_committed"}
BACK_OFF = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500}


def transactional(bootstrap, transactional_id, **settings):
    """Return a context manager with a producer; the test calls init_transactions."""
    return producer(bootstrap, transactional_id=transactional_id, **settings)


def run(client, transaction):
    """Run one transaction of a plan and commit or abort it."""
    client.begin_transaction()
    for (topic, partition), value in transaction.records:
        client.send(topic, value, partition=partition)
    client.flush(timeout=30)
    if transaction.commits:
        client.commit_transaction()
    else:
        client.abort_transaction()


def read_places(bootstrap, places, number, isolation="read_committed"):
    """Read each partition until `number` values arrived; return the values by partition."""
    with consumer(bootstrap, isolation_level=isolation) as client:
        client.assign([TopicPartition(*place) for place in places])
        client.seek_to_beginning()
        values = {}
        for record in read(client, number):
            values.setdefault((record.topic, record.partition), []).append(record.value)
        return values


@pytest.mark.short
def test_committed_transactions_are_read_in_order_and_aborted_ones_never(bootstrap, unique):
    topics = [unique("one"), unique("two")]
    for topic in topics:
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    plan = alternating(places_of(*topics), 12)
    with transactional(bootstrap, unique("id")) as client:
        client.init_transactions()
        for transaction in plan:
            run(client, transaction)
    committed, everything = expected(plan), expected(plan, committed_only=False)
    assert read_places(bootstrap, places_of(*topics), count(committed)) == committed
    assert read_places(bootstrap, places_of(*topics), count(everything), "read_uncommitted") == everything


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_one_transaction_of_many_batches(bootstrap, topic, unique, codec):
    create_topic(bootstrap, topic)
    with transactional(bootstrap, unique("id"), batch_size=300, compression_type=codec) as client:
        client.init_transactions()
        client.begin_transaction()
        metadata = send_all(client, topic, numbered(500))
        client.commit_transaction()
    assert [each.offset for each in metadata] == list(range(500))
    received = read_from(bootstrap, topic, 500, **READ_COMMITTED)
    assert [each.value for each in received] == [each.value for each in numbered(500)]


@pytest.mark.short
def test_an_open_transaction_hides_later_records_from_read_committed(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    where = TopicPartition(topic, 0)
    with (
        producer(bootstrap) as plain,
        transactional(bootstrap, unique("id")) as client,
        consumer(bootstrap, topic, **READ_COMMITTED) as reader,
    ):
        client.init_transactions()
        send_all(plain, topic, numbered(3))
        client.begin_transaction()
        send_all(client, topic, numbered(2, start=3))
        send_all(plain, topic, numbered(2, start=5))
        assert [each.value for each in read(reader, 3)] == [b"0", b"1", b"2"]
        assert reader.end_offsets([where]) == {where: 3}
        assert reader.poll(timeout_ms=1000) == {}
        client.commit_transaction()
        assert [each.value for each in read(reader, 4)] == [b"3", b"4", b"5", b"6"]
        assert reader.end_offsets([where]) == {where: 8}


@pytest.mark.short
def test_a_second_producer_fences_the_first(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    with transactional(bootstrap, unique("id")) as first, transactional(bootstrap, unique("id")) as second:
        first.init_transactions()
        first.begin_transaction()
        send_all(first, topic, numbered(1))
        second.init_transactions()
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
        second.begin_transaction()
        send_all(second, topic, numbered(1, start=1))
        second.commit_transaction()
    assert [each.value for each in read_from(bootstrap, topic, 1, **READ_COMMITTED)] == [b"1"]


def test_a_transaction_over_its_time_is_aborted(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    with transactional(bootstrap, unique("id"), transaction_timeout_ms=1000) as client, producer(bootstrap) as plain:
        client.init_transactions()
        client.begin_transaction()
        send_all(client, topic, numbered(1))
        send_all(plain, topic, numbered(1, start=1))
        (received,) = read_from(bootstrap, topic, 1, **READ_COMMITTED)
        assert (received.offset, received.value) == (1, b"1")
        with pytest.raises(ProducerFencedError):
            client.commit_transaction()


@pytest.mark.short
def test_consume_transform_produce_moves_each_record_once(bootstrap, unique):
    source, target, group = unique("source"), unique("target"), unique("group")
    for topic in (source, target):
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    with producer(bootstrap) as plain:
        for partition in range(PARTITIONS):
            send_all(plain, source, numbered(40), partition=partition)
    with (
        transactional(bootstrap, unique("id")) as client,
        consumer(bootstrap, source, group_id=group, max_poll_records=17, **READ_COMMITTED) as reader,
    ):
        client.init_transactions()
        moved, commits = 0, False
        while moved < 40 * PARTITIONS:
            records = read(reader, 1)
            move(client, reader, records, target, commits=commits)
            moved += len(records) if commits else 0
            commits = not commits

        def all_committed():
            # The commit response comes before the markers are written.
            return [reader.committed(where) for where in reader.assignment()] == [40] * PARTITIONS

        eventually(all_committed, "the committed offsets")
    values = read_places(bootstrap, places_of(target), 40 * PARTITIONS)
    assert values == {place: [each.value for each in numbered(40)] for place in places_of(target)}


def move(client, reader, records, target, *, commits):
    """Write the records and commit their offsets in a transaction; after an abort, seek to the committed offsets."""
    client.begin_transaction()
    next_offsets = {}
    for each in records:
        client.send(target, each.value, partition=each.partition)
        next_offsets[TopicPartition(each.topic, each.partition)] = OffsetAndMetadata(each.offset + 1, "", -1)
    client.send_offsets_to_transaction(next_offsets, reader.group_metadata())
    if commits:
        client.commit_transaction()
        return
    client.abort_transaction()
    for where in next_offsets:
        reader.seek(where, reader.committed(where) or 0)


@pytest.mark.restart
def test_transactions_continue_over_a_kill(broker, topic, unique):
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    with transactional(broker.bootstrap, unique("id"), **BACK_OFF) as client:
        client.init_transactions()
        for number in range(60):
            if number == 20:
                killing = threading.Thread(target=broker.restart, kwargs={"clean": False})
                killing.start()
            persist(client, topic, b"%d" % number)
        killing.join()
    values = read_places(broker.bootstrap, places_of(topic), 60 * PARTITIONS)
    assert values == {place: [b"%d" % number for number in range(60)] for place in places_of(topic)}


def persist(client, topic, value):
    """Repeat one transaction, with an abort after each failed send, until all sends succeed; then commit it once."""
    while True:
        client.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                client.send(topic, value, partition=partition).get(timeout=60)
        except KafkaError:
            client.abort_transaction()
            continue
        return client.commit_transaction()


@pytest.mark.restart
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_open_transaction_survives_a_kill(broker, topic, unique, end):
    create_topic(broker.bootstrap, topic)
    with transactional(broker.bootstrap, unique("id"), **BACK_OFF) as client:
        client.init_transactions()
        client.begin_transaction()
        send_all(client, topic, numbered(5))
        broker.restart(clean=False)
        send_all(client, topic, numbered(5, start=5))
        if end == "commit":
            client.commit_transaction()
        else:
            client.abort_transaction()
    with producer(broker.bootstrap) as plain:
        send_all(plain, topic, numbered(1, start=10))
    kept = [each.value for each in numbered(11)] if end == "commit" else [b"10"]
    assert [each.value for each in read_from(broker.bootstrap, topic, len(kept), **READ_COMMITTED)] == kept
