"""Fixture: the kind of cluster under test."""

import pytest


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")
