"""Fixture: one raw connection per test."""

import pytest

from compat_tests.raw.peer import Peer


@pytest.fixture
def peer(bootstrap):
    with Peer(bootstrap) as connected:
        yield connected
