"""Fixture: the kind of broker under test in clusters of both kinds."""

import pytest


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")
