"""The broker under test beside Apache Kafka, which gets the same script."""

import pytest

from compat_tests.differential.running import both_brokers


@pytest.fixture
def pair(request, tmp_path):
    """Addresses of both. Apache Kafka is tested against another of it: then a difference is our own fault."""
    with both_brokers(tmp_path, request.config.getoption("--broker")) as addresses:
        yield addresses
