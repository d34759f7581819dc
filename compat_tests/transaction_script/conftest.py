"""Fixture: the broker under test and Apache Kafka, which get the same script."""

import pytest

from compat_tests.differential.running import both_brokers


@pytest.fixture
def pair(request, tmp_path):
    """Yield both addresses. If Apache Kafka is tested, the other is Kafka too: differences are then faults of tests."""
    with both_brokers(tmp_path, request.config.getoption("--broker")) as addresses:
        yield addresses
