"""Kafka's own TransactionalMessageCopier with kill -9 of itself and of the broker: each message is copied once."""

import pytest

from compat_tests.confluent_kafka_client.client import create_topic, offsets_of, producer, send_all
from compat_tests.confluent_kafka_client.transactional import by_place, read_to_end, written_so_far
from compat_tests.harness.payloads import Record
from compat_tests.harness.transactions import PARTITIONS, places_of
from compat_tests.harness.waiting import eventually
from compat_tests.transactions.copier import Copier, copying

SECONDS_MAX = 300
FEW = ("copier", "broker")
MANY = ("copier", "broker", "copier", "copier", "broker")


@pytest.mark.restart
@pytest.mark.parametrize(
    ("messages", "kills"), [pytest.param(20_000, FEW, marks=pytest.mark.short), (100_000, MANY)], ids=["few", "many"]
)
def test_each_message_is_copied_once_and_in_order(broker, unique, tmp_path, messages, kills):
    source, target = unique("source"), unique("target")
    share = messages // PARTITIONS
    for topic in (source, target):
        create_topic(broker.bootstrap, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = [Record(key=b"%d" % number, value=b"%d of %d" % (number, partition)) for number in range(share)]
        offsets_of(send_all(producer(broker.bootstrap), source, records, partition=partition))
    copiers = [
        Copier(broker.bootstrap, source, target, partition, tmp_path / f"copier-{partition}.txt")
        for partition in range(PARTITIONS)
    ]
    with copying(copiers):
        for number, kill in enumerate(kills):
            await_progress(broker.bootstrap, target, copiers, (number + 1) * messages // (len(kills) + 2))
            if kill == "broker":
                broker.restart(clean=False)
            else:
                at_work(copiers)[-(number % 2)].kill()
        eventually(lambda: not at_work(copiers), "everything is copied", SECONDS_MAX)
    assert sum(copier.starts for copier in copiers) >= PARTITIONS + kills.count("copier")
    values = by_place(read_to_end(broker.bootstrap, places_of(target)))
    for topic, partition in places_of(target):
        assert values[topic, partition] == [b"%d of %d" % (number, partition) for number in range(share)]


def at_work(copiers):
    """Return the copiers that are not done; is_done restarts those that failed."""
    return [copier for copier in copiers if not copier.is_done()]


def await_progress(bootstrap, topic, copiers, records):
    """Wait until the topic has `records` records, committed or not."""

    def written():
        assert at_work(copiers)
        return written_so_far(bootstrap, places_of(topic)) >= records

    eventually(written, f"{records} records", SECONDS_MAX)
