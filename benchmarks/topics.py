"""Topics to measure on: made, led, and written to once."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.brokers import Run
from compat_tests.harness.waiting import eventually

PARTITIONS = 6


@contextmanager
def admin(run: Run) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=run.broker.bootstrap)
    try:
        yield client
    finally:
        client.close()


def make_topic(run: Run, topic: str, partitions: int = PARTITIONS) -> None:
    """Create a topic and wait until each of its partitions has a leader."""
    with admin(run) as client:
        client.create_topics([NewTopic(topic, partitions, 1)])
        eventually(lambda: _is_led(client, topic, partitions), f"leaders for {topic}", 60)


def delete_topic(run: Run, topic: str) -> None:
    """What a row has written must not fill the disk for the next."""
    with admin(run) as client:
        client.delete_topics([topic])


def _is_led(client: KafkaAdminClient, topic: str, partitions: int) -> bool:
    (described,) = client.describe_topics([topic])
    leaders = [partition for partition in described["partitions"] if partition["error_code"] == 0]
    return len(leaders) == partitions and all(partition["leader_id"] >= 0 for partition in leaders)
