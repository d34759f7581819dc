"""Consumers of confluent-kafka, each in its thread, that keep what they have read through all exchanges."""

import threading
from collections import Counter
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Consumer, KafkaError, KafkaException, ShareConsumer

from compat_tests.confluent_kafka_client.client import BACK_OFF

LASTING = {"session.timeout.ms": 300_000}
"""Session timeout of classic members: longer than an exchange takes."""


class Reader:
    """Member of a group. `read` counts the records whose offsets were committed, or that were acknowledged."""

    def __init__(self, bootstrap, group, topic, settings):
        self.settings = {"bootstrap.servers": bootstrap, "group.id": group} | BACK_OFF | settings
        self.topic = topic
        self.read = Counter()
        self.assignments = []
        self.stopping = threading.Event()
        self.problem = None

    def run(self):
        try:
            self.poll_until_stopped()
        except Exception as error:
            self.problem = error

    def poll_until_stopped(self):
        client = Consumer({"auto.offset.reset": "earliest", "enable.auto.commit": False} | self.settings)
        client.subscribe([self.topic], on_assign=lambda _, given: self.assignments.append(len(given)))
        while not self.stopping.is_set():
            messages = client.consume(num_messages=100, timeout=0.2)
            self._commit(client, messages)
            self.read.update((each.partition(), each.offset()) for each in messages if not each.error())
        client.close()

    def _commit(self, client, messages):
        """Commit until it succeeds: the broker may be down."""
        while messages and not self.stopping.is_set():
            try:
                client.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NO_OFFSET:
                    return
                continue
            return


class ShareReader(Reader):
    def poll_until_stopped(self):
        client = ShareConsumer({"share.acknowledgement.mode": "explicit"} | self.settings)
        client.subscribe([self.topic])
        while not self.stopping.is_set():
            messages = [each for each in client.poll(0.2) if not each.error()]
            for message in messages:
                client.acknowledge(message, AcknowledgeType.ACCEPT)
            if messages and set(client.commit_sync(20).values()) == {None}:
                self.read.update((each.partition(), each.offset()) for each in messages)
        client.close()


@contextmanager
def reading(readers):
    """Run the readers in threads; check at the end of the block that each has ended without an error."""
    threads = [threading.Thread(target=each.run, daemon=True) for each in readers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each in readers:
            each.stopping.set()
        for thread in threads:
            thread.join(60)
    assert [each.problem for each in readers] == [None] * len(readers)
    assert not any(thread.is_alive() for thread in threads)
