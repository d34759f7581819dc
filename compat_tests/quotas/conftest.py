"""Fixture: check that each test has removed its quotas."""

import pytest

from compat_tests.quotas.quotas import described


@pytest.fixture(autouse=True)
def no_quotas_are_left(bootstrap):
    yield
    assert described(bootstrap) == {}
