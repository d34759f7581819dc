"""Fixture: the broker under test and Apache Kafka, which get the same script."""

import pytest

from compat_tests.group_script.pair import pair as started_pair


@pytest.fixture
def pair(request, tmp_path):
    """Yield both addresses. If Apache Kafka is tested, the other is Kafka too: differences are then faults of tests."""
    with started_pair(tmp_path, request.config.getoption("--broker")) as addresses:
        yield addresses
