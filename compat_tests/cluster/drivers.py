"""Drivers with one interface for kafka-python, confluent-kafka, aiokafka and the Java client."""

import asyncio
import threading
import uuid
from contextlib import contextmanager

from compat_tests.aiokafka_client import client as aiokafka_client
from compat_tests.confluent_kafka_client import client as confluent_client
from compat_tests.harness.waiting import eventually
from compat_tests.kafka_python import client as kafka_python_client

SECONDS = 60
QUICK = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000}


class Confluent:
    name = "confluent-kafka"

    @contextmanager
    def producer(self, bootstrap):
        client = confluent_client.producer(bootstrap, enable_idempotence=True)

        def hand_over(topic, partition, values):
            """Send the values; return a function that waits for all acknowledgements and returns their offsets."""
            reported = {}
            for value in values:
                report = lambda error, message: reported.__setitem__(message.value(), error or message.offset())  # noqa: E731
                client.produce(topic, value, partition=partition, on_delivery=report)
            client.poll(0)

            def wait():
                eventually(lambda: client.poll(0.05) is None or len(reported) == len(values), "acknowledged", SECONDS)
                return [reported[value] for value in values]

            return wait

        yield hand_over
        client.flush(SECONDS)

    @contextmanager
    def member(self, bootstrap, topic, group):
        with confluent_client.consumer(bootstrap, group_id=group, **QUICK) as client:
            client.subscribe([topic])

            def read(count):
                """Read `count` records, commit, and return (partition, value) of each."""
                found = [(each.partition(), each.value()) for each in confluent_client.read(client, count, SECONDS)]
                client.commit(asynchronous=False)
                return found

            yield read


class KafkaPython:
    name = "kafka-python"

    @contextmanager
    def producer(self, bootstrap):
        backing_off = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500}
        with kafka_python_client.producer(bootstrap, enable_idempotence=True, **backing_off) as client:

            def hand_over(topic, partition, values):
                futures = [client.send(topic, value=value, partition=partition) for value in values]
                return lambda: [future.get(SECONDS).offset for future in futures]

            yield hand_over

    @contextmanager
    def member(self, bootstrap, topic, group):
        with kafka_python_client.consumer(bootstrap, topic, group_id=group, **QUICK) as client:

            def read(count):
                found = [(each.partition, each.value) for each in kafka_python_client.read(client, count, SECONDS)]
                client.commit()
                return found

            yield read


class Aiokafka:
    name = "aiokafka"

    @contextmanager
    def _loop(self):
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(SECONDS)
            loop.close()

    @contextmanager
    def producer(self, bootstrap):
        with self._loop() as run:
            context = aiokafka_client.producer(bootstrap, enable_idempotence=True)
            client = run(context.__aenter__()).result(SECONDS)

            async def send(topic, partition, values):
                futures = [await client.send(topic, value, partition=partition) for value in values]
                return [(await future).offset for future in futures]

            def hand_over(topic, partition, values):
                future = run(send(topic, partition, values))
                return lambda: future.result(SECONDS)

            yield hand_over
            run(context.__aexit__(None, None, None)).result(SECONDS)

    @contextmanager
    def member(self, bootstrap, topic, group):
        with self._loop() as run:
            context = aiokafka_client.consumer(bootstrap, topic, group_id=group, **QUICK)
            client = run(context.__aenter__()).result(SECONDS)

            async def read_and_commit(count):
                found = [
                    (each.partition, each.value) for each in await aiokafka_client.read(client, count, seconds=SECONDS)
                ]
                await client.commit()
                return found

            yield lambda count: run(read_and_commit(count)).result(SECONDS)
            run(context.__aexit__(None, None, None)).result(SECONDS)


class Java:
    name = "java"

    def __init__(self, clients):
        self.clients = clients

    @contextmanager
    def producer(self, bootstrap):
        name = self.clients.producer(bootstrap, f"p-{uuid.uuid4()}", enable_idempotence="true")

        def hand_over(topic, partition, values):
            texts = [value.decode() for value in values]
            number = self.clients.tell("hand", name, topic=topic, partition=partition, values=texts)
            return lambda: self.clients.tell("told", name, number=number)

        yield hand_over
        self.clients.tell("close", name)

    @contextmanager
    def member(self, bootstrap, topic, group):
        name = self.clients.consumer(bootstrap, f"c-{uuid.uuid4()}", topics=[topic], group_id=group, **QUICK)

        def read(count):
            found = self.clients.read(name, count, SECONDS * 1000)
            self.clients.tell("keep", name)
            return [(partition, value.encode()) for _, partition, _, value in found]

        yield read
        self.clients.tell("close", name)


DRIVERS = {each.name: each for each in (Confluent, KafkaPython, Aiokafka)}
"""Drivers that need no other process."""
