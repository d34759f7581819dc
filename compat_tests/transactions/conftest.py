"""Fixture: one JVM with the Java client for all tests."""

import pytest

from compat_tests.transactions.java_clients import running_clients


@pytest.fixture(scope="session")
def java():
    with running_clients() as clients:
        yield clients
