"""Options and fixtures that all client suites share."""

import os

import pytest

from compat_tests.harness.brokers import BROKERS, RunningBroker, started_broker
from compat_tests.harness.names import group, topic, unique  # noqa: F401 fixtures


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
    with started_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="session")
def bootstrap(broker):
    return broker.bootstrap
