"""Stock clients under a quota: they slow down, see throttle times and lose no record; kafka-configs sets quotas."""

import subprocess
import time

import pytest
from confluent_kafka import Producer

from compat_tests.harness.reference import JVM, class_path
from compat_tests.kafka_python.client import consumer, create_topic, producer
from compat_tests.quotas.quotas import described, quota

RATE = 100_000
FREE_BYTES = RATE * 10
VALUE = b"x" * 10_000
COUNT = 108
"""Number of records; they are 8 % more than the quota allows at once."""


@pytest.fixture
def client_id(unique):
    return unique("client")


def longest_wait_ms(client):
    """Return the longest throttle time in a kafka-python client's metrics."""
    return max(group["throttle-time-max"] for group in client.metrics().values() if "throttle-time-max" in group)


def test_a_kafka_python_producer_and_consumer_slow_down(bootstrap, topic, client_id):
    create_topic(bootstrap, topic)
    with quota(bootstrap, (("client-id", client_id),), "producer_byte_rate", RATE):
        began = time.monotonic()
        with producer(bootstrap, client_id=client_id, batch_size=20_000, linger_ms=2) as client:
            futures = [client.send(topic, VALUE, partition=0) for _ in range(COUNT)]
            client.flush(timeout=60)
            assert [future.get(timeout=1).offset for future in futures] == list(range(COUNT))
            assert longest_wait_ms(client) > 0
        assert time.monotonic() - began > 0.7
    with quota(bootstrap, (("client-id", client_id),), "consumer_byte_rate", RATE):
        began = time.monotonic()
        with consumer(bootstrap, topic, client_id=client_id, max_partition_fetch_bytes=100_000) as client:
            offsets = []
            while len(offsets) < COUNT and time.monotonic() - began < 60:
                for records in client.poll(timeout_ms=200).values():
                    offsets += [record.offset for record in records]
            assert offsets == list(range(COUNT))
            assert longest_wait_ms(client) > 0
        assert time.monotonic() - began > 0.5


def test_a_confluent_producer_reports_the_throttle_time(bootstrap, topic, client_id):
    create_topic(bootstrap, topic)
    waits = []
    delivered = []
    with quota(bootstrap, (("user", "ANONYMOUS"), ("client-id", client_id))[::-1], "producer_byte_rate", RATE):
        client = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "batch.size": 20_000,
                "linger.ms": 2,
                "throttle_cb": lambda event: waits.append(event.throttle_time),
            }
        )
        began = time.monotonic()
        for _ in range(COUNT):
            client.produce(topic, VALUE, partition=0, on_delivery=lambda error, _: delivered.append(error))
        assert client.flush(60) == 0
        assert time.monotonic() - began > 0.7
    assert delivered == [None] * COUNT
    assert max(waits) > 0


def kafka_configs(bootstrap, *arguments):
    command = ["java", *JVM, "-cp", class_path(), "kafka.admin.ConfigCommand"]
    command += ["--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if line]


@pytest.mark.parametrize(
    ("selection", "shown", "key", "value"),
    [
        (["--entity-type", "clients", "--entity-name", "app"], "client-id 'app'", "producer_byte_rate", "1024"),
        (["--entity-type", "users", "--entity-name", "al"], "user-principal 'al'", "request_percentage", "150"),
        (
            ["--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "app"],
            "the default user-principal, client-id 'app'",
            "controller_mutation_rate",
            "5",
        ),
    ],
    ids=["client", "user", "default-user-and-client"],
)
def test_kafka_configs_sets_shows_and_removes_quotas(bootstrap, selection, shown, key, value):
    status, lines = kafka_configs(bootstrap, "--alter", *selection, "--add-config", f"{key}={value}")
    assert status == 0, lines
    status, lines = kafka_configs(bootstrap, "--describe", *selection)
    assert (status, lines) == (0, [f"Quota configs for {shown} are {key}={float(value)}"])
    status, lines = kafka_configs(bootstrap, "--alter", *selection, "--delete-config", key)
    assert status == 0, lines
    assert described(bootstrap) == {}
    status, lines = kafka_configs(bootstrap, "--alter", *selection, "--add-config", "no_such_quota=1")
    assert status == 1
    assert any("no_such_quota" in line for line in lines)
