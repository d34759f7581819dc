"""The Java client, with an epoch for each transaction: committed records are read once and in order, aborted never."""

import threading

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.harness.transactions import PARTITIONS, alternating, count, expected, places_of
from compat_tests.transactions.java_clients import JavaError


def run(java, name, transaction):
    """Run one transaction of a plan and commit or abort it."""
    java.tell("begin", name)
    for (topic, partition), value in transaction.records:
        java.send(name, topic, [value.decode()], partition)
    java.tell("commit" if transaction.commits else "abort", name)


@pytest.mark.short
def test_committed_transactions_are_read_in_order_and_aborted_ones_never(bootstrap, java, unique):
    topics = [unique("one"), unique("two")]
    for topic in topics:
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    plan = alternating(places_of(*topics), 12)
    client = java.producer(bootstrap, unique("p"), transactional_id=unique("id"))
    for transaction in plan:
        run(java, client, transaction)
    committed, everything = expected(plan), expected(plan, committed_only=False)
    assert java.read_places(bootstrap, unique("c"), places_of(*topics), count(committed)) == committed
    everything_read = java.read_places(
        bootstrap, unique("c"), places_of(*topics), count(everything), isolation="read_uncommitted"
    )
    assert everything_read == everything
    java.tell("close", client)


def test_transactions_without_records(bootstrap, java, topic, unique):
    create_topic(bootstrap, topic)
    client = java.producer(bootstrap, unique("p"), transactional_id=unique("id"))
    for end in ("commit", "abort", "commit"):
        java.tell("begin", client)
        java.tell(end, client)
    java.tell("begin", client)
    assert java.send(client, topic, ["kept"]) == [0]
    java.tell("commit", client)
    java.tell("close", client)
    assert java.read_places(bootstrap, unique("c"), [(topic, 0)], 1) == {(topic, 0): [b"kept"]}


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_one_transaction_of_many_batches(bootstrap, java, topic, unique, codec):
    create_topic(bootstrap, topic)
    settings = {"transactional_id": unique("id"), "batch_size": 300, "compression_type": codec}
    client = java.producer(bootstrap, unique("p"), **settings)
    java.tell("begin", client)
    assert java.send(client, topic, range(2000)) == list(range(2000))
    java.tell("commit", client)
    java.tell("close", client)
    values = java.read_places(bootstrap, unique("c"), [(topic, 0)], 2000)
    assert values == {(topic, 0): [b"%d" % number for number in range(2000)]}


@pytest.mark.short
def test_an_open_transaction_hides_later_records_from_read_committed(bootstrap, java, topic, unique):
    create_topic(bootstrap, topic)
    plain = java.producer(bootstrap, unique("plain"))
    client = java.producer(bootstrap, unique("p"), transactional_id=unique("id"))
    reader = java.consumer(bootstrap, unique("c"), places=[(topic, 0)])
    java.send(plain, topic, range(3))
    java.tell("begin", client)
    java.send(client, topic, range(3, 5))
    java.send(plain, topic, range(5, 7))
    assert [each[3] for each in java.read(reader, 3)] == ["0", "1", "2"]
    assert java.tell("ends", reader) == [[topic, 0, 3]]
    assert java.read(reader, 1, milliseconds=1000) == []
    java.tell("commit", client)
    assert [each[3] for each in java.read(reader, 4)] == ["3", "4", "5", "6"]
    assert java.tell("ends", reader) == [[topic, 0, 8]]
    for name in (plain, client, reader):
        java.tell("close", name)


@pytest.mark.short
@pytest.mark.parametrize("late", ["commit", "send"])
def test_a_second_producer_fences_the_first(bootstrap, java, topic, unique, late):
    create_topic(bootstrap, topic)
    first = java.producer(bootstrap, unique("first"), transactional_id=unique("id"))
    java.tell("begin", first)
    java.send(first, topic, ["of the first"])
    second = java.producer(bootstrap, unique("second"), transactional_id=unique("id"))
    with pytest.raises(JavaError) as rejected:
        java.tell("commit", first) if late == "commit" else java.send(first, topic, ["too late"])
    assert rejected.value.kind == ("ProducerFencedException" if late == "commit" else "InvalidProducerEpochException")
    java.tell("begin", second)
    java.send(second, topic, ["of the second"])
    java.tell("commit", second)
    assert java.read_places(bootstrap, unique("c"), [(topic, 0)], 1) == {(topic, 0): [b"of the second"]}
    java.tell("close", first)
    java.tell("close", second)


def test_a_transaction_over_its_time_is_aborted(bootstrap, java, topic, unique):
    create_topic(bootstrap, topic)
    client = java.producer(bootstrap, unique("p"), transactional_id=unique("id"), transaction_timeout_ms=1000)
    plain = java.producer(bootstrap, unique("plain"))
    java.tell("begin", client)
    java.send(client, topic, ["too late"])
    java.send(plain, topic, ["behind it"])
    assert java.read_places(bootstrap, unique("c"), [(topic, 0)], 1) == {(topic, 0): [b"behind it"]}
    with pytest.raises(JavaError) as rejected:
        java.tell("commit", client)
    assert rejected.value.kind == "InvalidTxnStateException"
    java.tell("close", client)
    java.tell("close", plain)


@pytest.mark.short
def test_consume_transform_produce_moves_each_record_once(bootstrap, java, unique):
    source, target, group = unique("source"), unique("target"), unique("group")
    for topic in (source, target):
        create_topic(bootstrap, topic, partitions=PARTITIONS)
    plain = java.producer(bootstrap, unique("plain"))
    for partition in range(PARTITIONS):
        java.send(plain, source, range(60), partition)
    client = java.producer(bootstrap, unique("p"), transactional_id=unique("id"))
    settings = {"group_id": group, "group_protocol": "classic", "max_poll_records": 17}
    reader = java.consumer(bootstrap, unique("c"), topics=[source], **settings)
    moved, commits = 0, False
    while moved < 60 * PARTITIONS:
        moved += java.tell("move", client, **{"from": reader, "topic": target, "commits": commits})
        commits = not commits
    assert sorted(java.tell("committed", reader)) == [[source, partition, 60] for partition in range(PARTITIONS)]
    values = java.read_places(bootstrap, unique("all"), places_of(target), 60 * PARTITIONS)
    assert values == {place: [b"%d" % number for number in range(60)] for place in places_of(target)}
    for name in (plain, client, reader):
        java.tell("close", name)


@pytest.mark.restart
def test_transactions_continue_over_a_kill(broker, java, topic, unique):
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    client = java.producer(broker.bootstrap, unique("p"), transactional_id=unique("id"))
    for number in range(60):
        if number == 20:
            killing = threading.Thread(target=broker.restart, kwargs={"clean": False})
            killing.start()
        persist(java, client, topic, number)
    killing.join()
    java.tell("close", client)
    values = java.read_places(broker.bootstrap, unique("c"), places_of(topic), 60 * PARTITIONS)
    assert values == {place: [b"%d" % number for number in range(60)] for place in places_of(topic)}


def persist(java, client, topic, value):
    """Repeat one transaction, with an abort after each failed send, until all sends succeed; then commit it once."""
    while True:
        java.tell("begin", client)
        try:
            for partition in range(PARTITIONS):
                java.send(client, topic, [value], partition)
        except JavaError:
            java.tell("abort", client)
            continue
        java.tell("commit", client)
        return


@pytest.mark.restart
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_open_transaction_survives_a_kill(broker, java, topic, unique, end):
    create_topic(broker.bootstrap, topic)
    client = java.producer(broker.bootstrap, unique("p"), transactional_id=unique("id"))
    java.tell("begin", client)
    java.send(client, topic, range(5))
    broker.restart(clean=False)
    java.send(client, topic, range(5, 10))
    java.tell(end, client)
    java.tell("close", client)
    plain = java.producer(broker.bootstrap, unique("plain"))
    java.send(plain, topic, [10])
    java.tell("close", plain)
    kept = [b"%d" % number for number in range(11)] if end == "commit" else [b"10"]
    assert java.read_places(broker.bootstrap, unique("c"), [(topic, 0)], len(kept)) == {(topic, 0): kept}
