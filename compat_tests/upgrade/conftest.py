"""Which kind of cluster is tested."""

import pytest


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")
