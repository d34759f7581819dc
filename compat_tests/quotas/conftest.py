"""Nothing of one test's quotas may be left for the next."""

import pytest

from compat_tests.quotas.quotas import described


@pytest.fixture(autouse=True)
def no_quotas_are_left(bootstrap):
    yield
    assert described(bootstrap) == {}
