"""Fixtures: a broker with the settings of franz-go's own integration tests, and the results of one run against it."""

import pytest

from compat_tests.franz_go.running import listed_tests, run
from compat_tests.harness.brokers import started_broker

SETTINGS = {
    # TestShareGroupETL releases a record more often than the default allows.
    "group.share.delivery.count.limit": "10",
}


def pytest_generate_tests(metafunc):
    if "go_test" in metafunc.fixturenames:
        metafunc.parametrize("go_test", listed_tests())


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    with started_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"), SETTINGS) as started:
        yield started


@pytest.fixture(scope="session")
def results(broker, tmp_path_factory):
    return run(broker.bootstrap, tmp_path_factory.mktemp("kgo"))
