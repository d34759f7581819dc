"""Topics for measurements: created, led, and written to once."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.brokers import Run

PARTITIONS = 6


@contextmanager
def admin(run: Run) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=run.broker.bootstrap)
    try:
        yield client
    finally:
        client.close()


def make_topic(run: Run, topic: str, partitions: int = PARTITIONS) -> None:
    """Create a topic and wait until each of its partitions has accepted a record."""
    with admin(run) as client:
        client.create_topics([NewTopic(topic, partitions, 1)])
    producer = KafkaProducer(bootstrap_servers=run.broker.bootstrap)
    sent = [producer.send(topic, b"first", partition=partition) for partition in range(partitions)]
    for record in sent:
        record.get(60)
    producer.close()


def delete_topic(run: Run, topic: str) -> None:
    """Delete a row's topic, so that its data does not fill the disk during the next row."""
    with admin(run) as client:
        client.delete_topics([topic])
