"""Helpers for kafka-python, as applications call it, that the tests of this folder share."""

from contextlib import contextmanager

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually


@contextmanager
def producer(bootstrap, **settings):
    client = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        yield client
    finally:
        client.close(timeout=10)


@contextmanager
def consumer(bootstrap, *topics, **settings):
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
    client = KafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)
    try:
        yield client
    finally:
        client.close(autocommit=False, timeout_ms=10_000)


@contextmanager
def admin(bootstrap):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def create_topic(bootstrap, topic, partitions=1, **configs):
    named = {name.replace("_", "."): str(value) for name, value in configs.items()}
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": named}
    with admin(bootstrap) as client:
        client.create_topics({topic: options}, wait_for_metadata=True)


def send_all(client, topic, records, partition=0):
    """Send without waiting between records, so that batches form; return the metadata of each record."""
    futures = [
        client.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    client.flush(timeout=30)
    return [future.get(timeout=30) for future in futures]


def read(client, count, seconds=20):
    """Poll until `count` records arrived; return extra records too, so that the caller can detect them."""
    received = []

    def enough():
        for batch in client.poll(timeout_ms=200).values():
            received.extend(batch)
        return len(received) >= count

    eventually(enough, f"{count} records", seconds)
    return received


def read_from(bootstrap, topic, count, partition=0, offset=None, **settings):
    with consumer(bootstrap, **settings) as client:
        where = TopicPartition(topic, partition)
        client.assign([where])
        if offset is None:
            client.seek_to_beginning(where)
        else:
            client.seek(where, offset)
        return read(client, count)


def as_record(received):
    return Record(
        value=received.value, key=received.key, headers=tuple(received.headers), timestamp_ms=received.timestamp
    )
