"""A broker with Kafka's standard authorizer, where every client of the tests is a super user."""

import pytest

from compat_tests.harness.brokers import started_broker
from kwire.server.node.authorizers import STANDARD

SETTINGS = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    with started_broker(request.config.getoption("--broker"), tmp_path_factory.mktemp("broker"), SETTINGS) as started:
        yield started
