"""Fixtures: one Spark session and one broker for the whole run, and names that no other test uses."""

import uuid

import pytest

from compat_tests.harness.brokers import BROKERS, new_broker
from spark_jobs.session import new_session


def pytest_addoption(parser):
    parser.addoption("--broker", choices=sorted(BROKERS), default="kwire", help="the broker to start and test")


@pytest.fixture(scope="session")
def spark():
    session = new_session("kwire-tests", settings={"spark.sql.streaming.stopTimeout": "30s"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    started = new_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def bootstrap(broker):
    return broker.bootstrap


@pytest.fixture
def unique():
    """Return a function that creates names which no other test of any run uses."""
    suffix = uuid.uuid4().hex[:10]

    def name(role: str) -> str:
        return f"{role}-{suffix}"

    return name


@pytest.fixture
def topic(unique):
    """Return a topic name that does not exist on the broker yet."""
    return unique("topic")


@pytest.fixture(autouse=True)
def no_stream_is_left(spark):
    """Stop queries that a failed test left running, so that they do not disturb the next test."""
    yield
    for query in spark.streams.active:
        query.stop()
