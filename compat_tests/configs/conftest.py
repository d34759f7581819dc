"""Fixtures: raw connections to the broker under test and to Apache Kafka."""

import pytest

from compat_tests.harness.brokers import started_broker
from compat_tests.raw.peer import Peer


@pytest.fixture(scope="session")
def reference(broker, tmp_path_factory):
    """Return Apache Kafka; this is the broker under test if that is Kafka itself."""
    if broker.name == "kafka":
        yield broker
        return
    with started_broker("kafka", tmp_path_factory.mktemp("reference")) as started:
        yield started


@pytest.fixture
def peer(bootstrap):
    with Peer(bootstrap) as connected:
        yield connected


@pytest.fixture
def kafka(reference):
    with Peer(reference.bootstrap) as connected:
        yield connected


@pytest.fixture
def both(peer, kafka):
    """Return raw connections to the broker under test and to Apache Kafka."""
    return peer, kafka


@pytest.fixture
def each(broker, both):
    """Return one raw connection per broker: two, or one if the broker under test is Kafka itself."""
    return both[:1] if broker.name == "kafka" else both
