"""Helpers for confluent-kafka (librdkafka), as applications call it, that the tests of this folder share."""

from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.harness.payloads import Record
from compat_tests.harness.waiting import eventually

BACK_OFF = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}


def producer(bootstrap, **settings):
    return Producer({"bootstrap.servers": bootstrap} | BACK_OFF | dotted(settings))


@contextmanager
def consumer(bootstrap, **settings):
    defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": "unused"} | BACK_OFF
    client = Consumer({"bootstrap.servers": bootstrap} | defaults | dotted(settings))
    try:
        yield client
    finally:
        client.close()


def dotted(settings):
    """Return settings with dots in their names; callbacks, such as oauth_cb, keep theirs."""
    return {name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()}


def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap} | BACK_OFF)


def result(futures):
    """Return the result of the only future."""
    (future,) = futures.values()
    return future.result(timeout=20)


def create_topic(bootstrap, topic, partitions=1, **configs):
    client = admin(bootstrap)
    named = {name: str(value) for name, value in dotted(configs).items()}
    result(client.create_topics([NewTopic(topic, partitions, 1, config=named)]))
    eventually(lambda: len(client.list_topics(topic, timeout=5).topics[topic].partitions) == partitions, "metadata")


def send_all(client, topic, records, partition=0):
    """Produce all records, flush, and return (offset, error) for each in order."""
    reports = {}

    def report(number):
        def delivered(error, message):
            reports[number] = (message.offset(), error)

        return delivered

    for number, record in enumerate(records):
        client.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp=record.timestamp_ms,
            on_delivery=report(number),
        )
    assert client.flush(60) == 0
    return [reports[number] for number in range(len(records))]


def offsets_of(reports):
    assert [error for _, error in reports if error] == []
    return [offset for offset, _ in reports]


def read(client, count, seconds=20):
    """Consume until `count` records arrived; return extra records too, so that the caller can detect them."""
    received = []

    def enough():
        for message in client.consume(num_messages=500, timeout=0.2):
            if message.error():
                raise KafkaException(message.error())
            received.append(message)
        return len(received) >= count

    eventually(enough, f"{count} records", seconds)
    return received


def read_from(bootstrap, topic, count, partition=0, offset=0, **settings):
    with consumer(bootstrap, **settings) as client:
        client.assign([TopicPartition(topic, partition, offset)])
        return read(client, count)


def as_record(message):
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )
