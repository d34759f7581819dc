"""Which kind of broker is tested in clusters of both."""

import pytest


@pytest.fixture(scope="session")
def tested(request):
    return request.config.getoption("--broker")
