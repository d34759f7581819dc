"""Transactions: committed records are read once and in order, aborted ones never; fencing, timeouts, kills."""

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from compat_tests.confluent_kafka_client.client import (
    consumer,
    create_topic,
    offsets_of,
    producer,
    read,
    read_from,
    send_all,
)
from compat_tests.confluent_kafka_client.transactional import persist, read_places, run, transactional
from compat_tests.harness.payloads import numbered
from compat_tests.harness.transactions import PARTITIONS, alternating, count, expected, places_of

READ_COMMITTED = {"isolation_level": "read_committed"}


@pytest.mark.short
def test_committed_transactions_are_read_in_order_and_aborted_ones_never(bootstrap, unique):
    topics = [unique("one"), unique("two")]
    for topic in topics:
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    plan = alternating(places_of(*topics), 12)
    client = transactional(bootstrap, unique("id"))
    for transaction in plan:
        run(client, transaction)
    committed, everything = expected(plan), expected(plan, committed_only=False)
    assert read_places(bootstrap, places_of(*topics), count(committed)) == committed
    assert read_places(bootstrap, places_of(*topics), count(everything), "read_uncommitted") == everything


def test_transactions_without_records_and_without_end(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    client = transactional(bootstrap, unique("id"))
    for end in (client.commit_transaction, client.abort_transaction):
        client.begin_transaction()
        end(30)
    client.begin_transaction()
    client.produce(topic, b"left behind", partition=0)
    assert client.flush(30) == 0
    successor = transactional(bootstrap, unique("id"))
    successor.begin_transaction()
    successor.produce(topic, b"kept", partition=0)
    successor.commit_transaction(30)
    (received,) = read_from(bootstrap, topic, 1, **READ_COMMITTED)
    assert (received.offset(), received.value()) == (2, b"kept")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_one_transaction_of_many_batches(bootstrap, topic, unique, codec):
    create_topic(bootstrap, topic)
    client = transactional(bootstrap, unique("id"), batch_num_messages=10, compression_type=codec)
    client.begin_transaction()
    offsets = offsets_of(send_all(client, topic, numbered(1000)))
    client.commit_transaction(30)
    assert offsets == list(range(1000))
    received = read_from(bootstrap, topic, 1000, **READ_COMMITTED)
    assert [each.value() for each in received] == [each.value for each in numbered(1000)]


@pytest.mark.short
def test_an_open_transaction_hides_later_records_from_read_committed(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    plain = producer(bootstrap)
    offsets_of(send_all(plain, topic, numbered(3)))
    client = transactional(bootstrap, unique("id"))
    client.begin_transaction()
    offsets_of(send_all(client, topic, numbered(2, start=3)))
    offsets_of(send_all(plain, topic, numbered(2, start=5)))
    with consumer(bootstrap, enable_partition_eof=True, **READ_COMMITTED) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert [reader.poll(10).value() for _ in range(3)] == [b"0", b"1", b"2"]
        end = reader.poll(10)
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 3)
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 3)
        assert reader.poll(1) is None
        client.commit_transaction(30)
        assert [reader.poll(10).value() for _ in range(4)] == [b"3", b"4", b"5", b"6"]
        end = reader.poll(10)
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 8)


@pytest.mark.short
def test_a_second_producer_fences_the_first(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    first = transactional(bootstrap, unique("id"))
    first.begin_transaction()
    first.produce(topic, b"of the first", partition=0)
    assert first.flush(30) == 0
    second = transactional(bootstrap, unique("id"))
    with pytest.raises(KafkaException) as rejected:
        first.commit_transaction(30)
    assert rejected.value.args[0].code() == KafkaError._FENCED
    assert rejected.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, b"of the second", partition=0)
    second.commit_transaction(30)
    assert [each.value() for each in read_from(bootstrap, topic, 1, **READ_COMMITTED)] == [b"of the second"]


def test_a_transaction_over_its_time_is_aborted(bootstrap, topic, unique):
    create_topic(bootstrap, topic)
    client = transactional(bootstrap, unique("id"), transaction_timeout_ms=1000)
    client.begin_transaction()
    client.produce(topic, b"too late", partition=0)
    assert client.flush(30) == 0
    offsets_of(send_all(producer(bootstrap), topic, numbered(1)))
    (received,) = read_from(bootstrap, topic, 1, **READ_COMMITTED)
    assert (received.offset(), received.value()) == (1, b"0")
    with pytest.raises(KafkaException) as rejected:
        client.commit_transaction(30)
    assert rejected.value.args[0].code() == KafkaError._FENCED


@pytest.mark.short
def test_consume_transform_produce_moves_each_record_once(bootstrap, unique):
    source, target, group = unique("source"), unique("target"), unique("group")
    for topic in (source, target):
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        offsets_of(send_all(producer(bootstrap), source, numbered(60), partition=partition))
    client = transactional(bootstrap, unique("id"))
    with consumer(bootstrap, group_id=group, **READ_COMMITTED) as reader:
        reader.subscribe([source])
        moved, rounds = 0, 0
        while moved < 60 * PARTITIONS:
            messages = read(reader, 1)[:17]
            next_offsets = {}
            client.begin_transaction()
            for each in messages:
                place = (each.partition(), each.offset())
                assert place == (place[0], next_offsets.get(place[0], place[1]))
                client.produce(target, each.value(), partition=each.partition())
                next_offsets[each.partition()] = each.offset() + 1
            positions = [TopicPartition(source, partition, offset) for partition, offset in next_offsets.items()]
            client.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), 30)
            rounds += 1
            if rounds % 2:
                client.abort_transaction(30)
            else:
                client.commit_transaction(30)
                moved += len(messages)
            rewind(reader, source)
        found = reader.committed([TopicPartition(source, partition) for partition in range(PARTITIONS)], timeout=10)
    assert [each.offset for each in found] == [60] * PARTITIONS
    values = read_places(bootstrap, places_of(target), 60 * PARTITIONS)
    assert values == {place: [each.value for each in numbered(60)] for place in places_of(target)}


def rewind(reader, topic):
    """Seek to the committed offsets, as an application does after an abort."""
    for each in reader.committed(reader.assignment(), timeout=10):
        reader.seek(TopicPartition(topic, each.partition, max(each.offset, 0)))


@pytest.mark.restart
def test_transactions_continue_over_a_kill(broker, topic, unique):
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    client = transactional(broker.bootstrap, unique("id"), retry_backoff_max_ms=200)
    for number in range(60):
        if number == 20:
            killing = threading.Thread(target=broker.restart, kwargs={"clean": False})
            killing.start()

        def write(number=number):
            for partition in range(PARTITIONS):
                client.produce(topic, b"%d" % number, partition=partition)

        persist(client, write)
    killing.join()
    values = read_places(broker.bootstrap, places_of(topic), 60 * PARTITIONS)
    assert values == {place: [b"%d" % number for number in range(60)] for place in places_of(topic)}


@pytest.mark.restart
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_open_transaction_survives_a_kill(broker, topic, unique, end):
    create_topic(broker.bootstrap, topic)
    client = transactional(broker.bootstrap, unique("id"))
    client.begin_transaction()
    offsets_of(send_all(client, topic, numbered(5)))
    broker.restart(clean=False)
    offsets_of(send_all(client, topic, numbered(5, start=5)))
    client.commit_transaction(60) if end == "commit" else client.abort_transaction(60)
    offsets_of(send_all(producer(broker.bootstrap), topic, numbered(1, start=10)))
    kept = [each.value for each in numbered(11)] if end == "commit" else [b"10"]
    received = read_from(broker.bootstrap, topic, len(kept), **READ_COMMITTED)
    assert [each.value() for each in received] == kept
