"""Fixtures: both brokers with their tools."""

import json

import pytest

from compat_tests.confluent_kafka_client.client import create_topic
from compat_tests.harness.brokers import started_broker
from compat_tests.kafka_tools.comparing import Both, Side
from compat_tests.kafka_tools.tools import class_archive


@pytest.fixture(scope="session")
def archive(broker, tmp_path_factory):
    return class_archive(broker.bootstrap, tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="session")
def both(broker, archive, tmp_path_factory):
    """Yield the broker under test beside Apache Kafka; if it is Apache Kafka, alone."""
    tested = Side(broker, archive)
    if broker.name == "kafka":
        yield Both(tested, None)
        return
    with started_broker("kafka", tmp_path_factory.mktemp("reference")) as started:
        yield Both(tested, Side(started, archive))


@pytest.fixture
def json_file(tmp_path):
    """Return a function that writes JSON to a file for a tool and returns the file's name."""

    def write(name, content):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def new_topic(both, topic):
    """Create a topic on both brokers, without starting a JVM."""

    def create(partitions=1):
        for side in both.sides:
            create_topic(side.broker.bootstrap, topic, partitions=partitions)
        return topic

    return create
