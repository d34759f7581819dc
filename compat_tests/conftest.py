"""Options and fixtures that all client suites share."""

import os
import uuid

import pytest

from compat_tests.harness.brokers import BROKERS, RunningBroker, new_broker


def pytest_addoption(parser):
    chosen = os.environ.get("KWIRE_COMPAT_BROKER", "kwire")
    parser.addoption("--broker", choices=sorted(BROKERS), default=chosen, help="the broker to start and test")
    parser.addoption("--bootstrap", metavar="HOST:PORT", help="test a broker that is running already")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--bootstrap"):
        for item in items:
            if item.get_closest_marker("restart"):
                item.add_marker(pytest.mark.skip(reason="the broker given by --bootstrap is not ours to restart"))


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    """Start the broker under test. One process serves the whole run; tests never share topics or groups."""
    bootstrap = request.config.getoption("--bootstrap")
    if bootstrap:
        yield RunningBroker(bootstrap)
        return
    started = new_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
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


@pytest.fixture
def group(unique):
    return unique("group")
