"""Stock clients at work during restarts of brokers: each records its acknowledgements and every error it received.

A load is a producer and the only member of a group on its own topic. No other client writes there, so the stored
records must be the acknowledged ones, at the acknowledged offsets.
"""

import threading
from contextlib import contextmanager

from confluent_kafka import TopicPartition

from compat_tests.cluster import drivers
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.waiting import eventually
from compat_tests.transactions.java_clients import running_clients

PARTITIONS = 3
BATCH = 20
PAUSE_SECONDS = 0.1
END_SECONDS = 90


class Confluent(drivers.Confluent):
    """Driver that counts every error of the consumer as an error for the application."""

    @contextmanager
    def member(self, bootstrap, topic, group):
        with confluent_client.consumer(bootstrap, group_id=group, **drivers.QUICK) as client:
            client.subscribe([topic])

            def read(count):
                messages = []
                while len(messages) < count:
                    messages += client.consume(num_messages=count - len(messages), timeout=1.0)
                errors = [message.error() for message in messages if message.error()]
                assert errors == []
                client.commit(asynchronous=False)
                return [(message.partition(), message.value()) for message in messages]

            yield read


class Java:
    """Driver with producer and member in separate processes, because each executes one command after the other."""

    name = drivers.Java.name

    @contextmanager
    def producer(self, bootstrap):
        with running_clients() as clients, drivers.Java(clients).producer(bootstrap) as hand_over:
            yield hand_over

    @contextmanager
    def member(self, bootstrap, topic, group):
        with running_clients() as clients, drivers.Java(clients).member(bootstrap, topic, group) as read:
            yield read


DRIVERS = (Confluent, drivers.KafkaPython, drivers.Aiokafka, Java)


class Load:
    """Producer and consumer of one client library, in two threads."""

    def __init__(self, driver, bootstrap, topic, group):
        self.name = driver.name
        self._driver = driver
        self._bootstrap = bootstrap
        self.topic = topic
        self._group = group
        self.acknowledged = {index: [] for index in range(PARTITIONS)}
        """Values of each partition in the order of sending."""
        self.seen = {index: [] for index in range(PARTITIONS)}
        self.errors = []
        self._stop = threading.Event()
        self._all_sent = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._produce, self._consume)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def await_progress(self):
        """Wait until more records are acknowledged and seen than now."""
        sent, seen = self.count(self.acknowledged), self.count(self.seen)
        eventually(
            lambda: self.errors or (self.count(self.acknowledged) > sent and self.count(self.seen) > seen),
            f"{self.name} gets on",
            END_SECONDS,
        )
        assert not self.errors, f"{self.name}: {self.errors}"

    @staticmethod
    def count(values):
        return sum(map(len, values.values()))

    def end(self):
        """Stop sending; wait until all acknowledged records are seen."""
        self._stop.set()
        for thread in self._threads:
            thread.join(END_SECONDS)
            assert not thread.is_alive(), f"{self.name} does not end: {self.errors}"

    def _run(self, work):
        try:
            work()
        except BaseException as error:
            self.errors.append(error)
        finally:
            if work == self._produce:
                self._all_sent.set()

    def _produce(self):
        with self._driver.producer(self._bootstrap) as hand_over:
            number = 0
            while not self._stop.wait(PAUSE_SECONDS):
                partition = number % PARTITIONS
                values = [b"%d-%d" % (number, index) for index in range(BATCH)]
                number += 1
                offsets = hand_over(self.topic, partition, values)()
                first = len(self.acknowledged[partition])
                assert offsets == list(range(first, first + BATCH)), f"{offsets} instead of {first} and what follows"
                self.acknowledged[partition] += values

    def _consume(self):
        with self._driver.member(self._bootstrap, self.topic, self._group) as read:
            while not self._all_sent.is_set() or self.missing:
                # It must never request more records than exist, because it would wait for them.
                if self.missing:
                    for partition, value in read(min(BATCH, self.missing)):
                        self.seen[partition].append(value)
                else:
                    self._all_sent.wait(PAUSE_SECONDS)

    @property
    def missing(self):
        """Return the number of acknowledged records that are not seen yet."""
        return sum(len(values) - len(set(self.seen[index])) for index, values in self.acknowledged.items())

    def check(self):
        """Check that there was no error, and that no record is lost or duplicated."""
        assert not self.errors, f"{self.name}: {self.errors}"
        assert self.count(self.acknowledged) > 0
        for index, values in self.acknowledged.items():
            assert list(dict.fromkeys(self.seen[index])) == values
            with confluent_client.consumer(self._bootstrap, isolation_level="read_committed") as client:
                client.assign([TopicPartition(self.topic, index, 0)])
                stored = [each.value() for each in confluent_client.read(client, len(values), END_SECONDS)]
            assert stored == values
